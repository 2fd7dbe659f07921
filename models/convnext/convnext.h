// ConvNeXt, a convolutional network with the blocks of a Transformer, which classifies images (config.h).
//
//   [CNX-1]  x = norm(conv(image))              kernel and stride P x P
//   [CNX-2]  x = conv(norm(x))                  between two stages; kernel and stride 2 x 2
//   [CNX-3]  x = x + path(gamma * (W_2 gelu(W_1 norm(u) + b_1) + b_2)),  u = depthwise conv(x), kernel 7 x 7, padding 3
//
//   gamma [C] is the normalizer `scale` at the site BLOCK.gamma, so that it folds into W_2 and b_2; initially it is
//   1e-6. path drops the branch of some images (DropPath), with a probability that grows from 0 in the first block to
//   config.drop_path in the last. The mean over pixels, the last normalizer and the head are in models/images/model.h.
//
//   Parameters have timm's names (huggingface/pytorch-image-models, convnext.py), except gamma.weight: stem.0, stem.1,
//   stages.S.downsample.0 and .1, stages.S.blocks.B.conv_dw, .norm, .mlp.fc1, .mlp.fc2, .gamma, head.norm, head.fc.
//   If stage s has C_s channels and D_s blocks, C is the last C_s, and normalizers have gain and bias, the number of
//   parameters is 3 P^2 C_0 + 3 C_0 + sum_(s > 0) (4 C_(s-1) C_s + 2 C_(s-1) + C_s) + sum_s D_s (8 C_s^2 + 58 C_s)
//   + 2 C + (C + 1) * classes.
//   Weights are initialized from N(0, 0.02), biases to 0 (facebookresearch/ConvNeXt, convnext.py).
#pragma once
#include "models/convnext/config.h"
#include "models/images/model.h"

namespace foldgrad {

class ConvNext final : public ImageFamily<ConvNext, ConvNextConfig> {
 public:
  ConvNext(const ConvNextConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
           Device device = Device::cpu);
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  const char* family() const override { return "convnext"; }

 private:
  struct Block {
    std::string name;
    ConvLayer conv;  // includes the normalizer after it
    LinearLayer fc1, fc2;
    std::unique_ptr<Normalizer> gamma;
    double drop_path;
  };
  struct Stage {
    ConvLayer downsample;  // includes the normalizer before it; the first stage has none
    std::deque<Block> blocks;
  };

  void add_stage(std::int64_t stage);
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed) override;
  Var features(const Var& pixels, const ForwardPass& pass) override;
  Var block(Block& block, const Var& x, std::int64_t side, const Segments& rows, const ForwardPass& pass);

  std::deque<Stage> stages_;
};

}  // namespace foldgrad
