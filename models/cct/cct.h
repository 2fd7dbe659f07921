// The Compact Convolutional Transformer of config.h, which classifies images.
//
//   [CCT-1]  u = image; stem = cct: per convolution u = max_pool(relu(conv(u))), kernel 3 x 3, stride 2, padding 1
//                       stem = hybrid: u = gelu(norm(conv(u))), then max_pool, kernel 2 x 2, stride 2, except after the
//                       first convolution. Each pixel of the last u is a token
//
//   [CCT-2] is in models/blocks/layers.h; positions, pooling [CCT-3] and inputs are in models/images/.
//
//   Parameters have the authors' names and shapes (SHI-Labs/Compact-Transformers, src): the convolutions are
//   tokenizer.conv_layers.I.0 [out, in, kernel, kernel], and a hybrid stem's normalizers are
//   tokenizer.conv_layers.I.norm. All other names begin with `classifier.`: positional_emb [1, tokens, width],
//   blocks.I.pre_norm, blocks.I.self_attn.qkv and .proj, blocks.I.norm1, blocks.I.linear1 and .linear2, norm,
//   attention_pool [1, width] and fc.
#pragma once
#include "models/cct/config.h"
#include "models/images/token_model.h"

namespace foldgrad {

class Cct final : public ImageFamily<Cct, CctConfig, TokenModel> {
 public:
  Cct(const CctConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
      Device device = Device::cpu);
  const char* family() const override { return "cct"; }

 private:
  Var tokens(const Var& pixels, const ForwardPass& pass) override;
  Var conv(const Var& x, std::int64_t index, const ForwardPass& pass);
};

}  // namespace foldgrad
