// EfficientNet-Lite0, which classifies images: an EfficientNet with relu6 and without squeeze-and-excitation (Google,
// 2020; after Tan, Le: "EfficientNet", ICML 2019). A normalizer follows every convolution.
//
//   [EFF-1]  u = norm(conv(x)), each convolution with SAME padding and without a bias
//   [EFF-2]  block: relu6(u) of a 1 x 1 convolution that widens x sixfold, not in the first block; relu6(u) of a
//            depthwise convolution; u of a 1 x 1 convolution. x is added if the shape is the same
//   [EFF-3]  logits = fc(mean over pixels of relu6(u)), u of a 1 x 1 convolution to 1280 channels after the blocks
//
//   With SAME padding, a side of H pixels becomes ceil(H / stride) pixels. Half of the zeros that this requires precede
//   the pixels, and half follow them; if their number is odd, the extra zero follows.
//
//   Parameters have the names of the package efficientnet-lite-pytorch, without leading underscores: conv_stem, bn0,
//   blocks.I.expand_conv, .bn0, .depthwise_conv, .bn1, .project_conv, .bn2, conv_head, bn1, fc. With normalizers that
//   have gain and bias, there are 3,371,008 + 1,281 * classes parameters.
//   Convolutions are initialized from N(0, sqrt(2 / (K^2 out / groups))), fc from U(-b, b) with b = classes^-1/2, and
//   biases to 0 (tensorflow/tpu, efficientnet_model.py).
#pragma once
#include "models/images/model.h"

namespace foldgrad {

struct EfficientNetLiteConfig : ImageModelConfig {
  bool conv_bias = false;  // convolutions have biases, so that normalizers can fold into them

  // The constructor also selects the published normalizer.
  EfficientNetLiteConfig();
  std::int64_t smallest_image() const { return 1; }
  void validate() const;
  bool operator==(const EfficientNetLiteConfig&) const = default;
};

class EfficientNetLite final : public ImageFamily<EfficientNetLite, EfficientNetLiteConfig> {
 public:
  static constexpr std::int64_t kHeadChannels = 1280;  // channels of the last convolution, which the classifier reads

  EfficientNetLite(const EfficientNetLiteConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
                   Device device = Device::cpu);
  const char* family() const override { return "efficientnet_lite"; }
  // Returns a model with biases for normalizers to fold into.
  std::unique_ptr<Model> foldable() override;

 private:
  // A convolution, its normalizer and its activation. An element of stem() holds the parameters.
  struct Step {
    std::string scope;
    std::int64_t stride, groups;
    bool activates;
    bool adds_input;  // true if the block that ends with this step adds its input to the result
  };

  void add_step(const Step& step, const std::string& norm, std::int64_t in, std::int64_t out, std::int64_t kernel);
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed) override;
  Var features(const Var& pixels, const ForwardPass& pass) override;
  Var convolved(std::size_t number, const Var& x, const ForwardPass& pass);

  std::vector<Step> steps_;  // in the order of stem()
};

void visit_keys(KeysOf<EfficientNetLiteConfig> auto& m, const auto& v) {
  visit_data_size_keys(m, v);
  v(m.conv_bias, from_data("conv_bias"));
  visit_data_and_normalizer_keys(m, v);
}

inline ExpectedParameters expected_parameters(const EfficientNetLiteConfig& c) {
  return {{"fc.weight", {c.classes, EfficientNetLite::kHeadChannels}}};
}

}  // namespace foldgrad
