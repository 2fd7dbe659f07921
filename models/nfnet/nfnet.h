// NFNet, a convolutional network without normalizers, which classifies images (config.h).
//
//   [NF-1]  a(x) = 1.7015043497085571 gelu(x)         the factor gives a normal variable of variance 1 a variance of 1
//   [NF-2]  conv(x) = What * x + b                    What: [WS-3] of the weight and a gain per channel
//   [NF-3]  block: y = .2 skip_gain path(2 s r) + shortcut, with u = beta a(x),
//           r = conv3(a(conv2b(a(conv2(a(conv1(u)))))))            kernels 1, 3, 3, 1; conv2 has the stage's stride
//           s = sigmoid(W_2 f(W_1 mean(r) + b_1) + b_2)            one number for each image and channel [GATE-1]
//           shortcut = conv(mean of 2 x 2 pixels of u) in the first block of a stage, without the mean in the first
//           stage; x in the others
//   [NF-4]  beta = variance^-1/2; the variance is 1 at first, 1.04 after a stage's first block, and each other block
//           adds .04
//   [NF-5]  logits = fc(drop(mean over pixels of a(conv(x)))), x after all blocks; before them is the stem, four
//           convolutions with a between them
//
//   path drops the branch of some images (stochastic depth), in block i of N with the probability drop_path * i / N.
//   Like both sources, we do not divide the kept branches by the probability of keeping them. A normalizer, by default
//   `none`, follows each convolution. If weights are standardized, a constant factor of a convolution's input is
//   applied to the gain instead, which has fewer elements.
//
//   Parameters have timm's names (huggingface/pytorch-image-models, nfnet.py): stem.conv1 to .conv4, stages.S.B.conv1,
//   .conv2, .conv2b, .conv3, .downsample.conv, .attn_last.fc1, .fc2, .skipinit_gain, final_conv, head.fc; gains are
//   vectors. F0 has 68,416,284 + 3,073 * classes parameters.
//   "original" initializes convolutions, W_1 and W_2 from N(0, fan_in^-1/2) and biases to 0; the source truncates W_1
//   and W_2 at two deviations. "port" initializes convolutions from N(0, (2 / (fan_in + fan_out))^1/2), and biases, W_1
//   and W_2 as PyTorch does. Both initialize gains to 1, skip_gain to 0 and the head from N(0, .01).
#pragma once
#include "models/images/model.h"
#include "models/nfnet/config.h"
#include "ops/conv2d/conv2d.h"

namespace foldgrad {

class NfNet final : public ImageFamily<NfNet, NfNetConfig> {
 public:
  NfNet(const NfNetConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
        Device device = Device::cpu);
  const char* family() const override { return "nfnet"; }
  // Returns a model without standardization, whose weights are this model's standardized weights.
  std::unique_ptr<Model> foldable() override;

 private:
  struct Conv : ConvLayer {
    std::string name;
    Parameter gain;  // its value is undefined without standardization
    Conv2dChannelsLastOptions options;
  };
  struct Block {
    std::string name;
    bool projects;      // the shortcut has a convolution, which precedes the branch's four in convs_
    std::size_t first;  // index of the block's first convolution
    LinearLayer fc1, fc2;
    Parameter skip_gain;
    double beta, drop_path;
  };

  void add_conv(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                std::int64_t stride = 1, std::int64_t groups = 1);
  void make_stage(std::size_t stage, double& variance);
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed) override;
  Var features(const Var& pixels, const ForwardPass& pass) override;
  Var pooled(const Var& x, std::int64_t images, const ForwardPass& pass) override;
  Var convolve(Conv& conv, const Var& x, double factor, const ForwardPass& pass);
  Var standardized(Conv& conv, double factor, const ForwardPass& pass) const;
  Var activated(const Var& x, const std::string& scope, const ForwardPass& pass) const;
  Var block(Block& block, const Var& x, const ForwardPass& pass);

  Activation activation_;
  std::deque<Conv> convs_;  // in the order of the forward pass
  std::deque<Block> blocks_;
};

}  // namespace foldgrad
