// The vision Transformer of config.h, which classifies images.
//
//   The tokens are patches W_p^T + b_p. models/images/token_model.h defines the inputs and the rest of the model.
//
//   Parameters have timm's names and shapes (huggingface/pytorch-image-models, vision_transformer.py): cls_token
//   [1, 1, width], pos_embed [1, tokens, width], patch_embed.proj, blocks.I.attn.qkv, blocks.I.norm1, ..., norm, head;
//   with pooling = sequence also attention_pool, which timm lacks.
//   Let D = width, L = layers, m = ffn_width, p = patch, T = the number of tokens, c = 1 with a class token, otherwise
//   0, and b = 1 with qkv_bias, otherwise 0. With normalizers that have gain and bias, the model has
//   (3 p^2 + 1) D + T D + c D + L (4 D^2 + 2 m D + m + 6 D + 3 b D) + 2 D + (D + 1) * classes parameters.
#pragma once
#include "models/images/token_model.h"
#include "models/vit/config.h"

namespace foldgrad {

class Vit final : public ImageFamily<Vit, VitConfig, TokenModel> {
 public:
  Vit(const VitConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
      Device device = Device::cpu);
  std::string onnx_stem(OnnxGraph& g, const std::string& pixels) const override;
  const char* family() const override { return "vit"; }

 private:
  Var tokens(const Var& pixels, const ForwardPass& pass) override;
};

}  // namespace foldgrad
