// The vision Transformer of config.h, which classifies images.
//
//   Vit model(config, seed);
//   Var loss = model.loss({{"images", images}, {"target", target}}, {.tape = tape, .dtype = DType::f32}, 0.1);
//
//   Its tokens are patches W_p^T + b_p. models/images/token_model.h has the rest, and the inputs.
//
//   Parameters have timm's names and shapes (huggingface/pytorch-image-models, vision_transformer.py): cls_token
//   [1, 1, width], pos_embed [1, tokens, width], patch_embed.proj, blocks.I.attn.qkv, blocks.I.norm1, ..., norm, head;
//   with pooling = sequence also attention_pool, which timm lacks.
//   Let m = ffn_width, p = patch, T = the number of tokens, and b = 1 with qkv_bias, otherwise 0. With normalizers that
//   have gain and bias, there are (3 p^2 + 1) width + T width + [cls] width + layers (4 width^2 + 2 m width + m +
//   6 width + 3 b width) + 2 width + (width + 1) classes parameters.
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
