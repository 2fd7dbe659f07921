// The Tokens-to-Token vision Transformer of config.h, which classifies images.
//
//   [T2T-1]  x = module(unfold(image)); x = module(unfold(x)); tokens = W_p unfold(x) + b_p
//   [T2T-6]  positions_(n, j) = sin(n 10000^(-2 floor(j / 2) / width)) for even j, the cosine for odd j; n = 0 for cls
//
//   Between unfolds [CONV-1], the rows of an image form a square map. token_module.h defines the modules;
//   models/images/token_model.h defines the inputs and the rest of the model. Positions are not trained.
//
//   Parameters have the authors' names (yitu-opensource/T2T-ViT, t2t_vit.py): tokens_to_token.attention1, .attention2,
//   .project, cls_token, pos_embed, blocks.I.norm1, .attn.qkv, .attn.proj, .norm2, .mlp.fc1, .mlp.fc2, norm, head.
//   Linear layers and cls are initialized from N(0, 0.02), biases to 0, and w to a random orthogonal matrix.
#pragma once
#include "models/images/token_model.h"
#include "models/t2t/token_module.h"

namespace foldgrad {

class T2t final : public ImageFamily<T2t, T2tConfig, TokenModel> {
 public:
  T2t(const T2tConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
      Device device = Device::cpu);
  const char* family() const override { return "t2t"; }
  std::map<std::string, double> diagnostics() const override;  // returns diagnostics of the token modules

 private:
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed) override;
  Var tokens(const Var& pixels, const ForwardPass& pass) override;

  std::deque<TokenModule> modules_;
  LinearLayer project_;
};

}  // namespace foldgrad
