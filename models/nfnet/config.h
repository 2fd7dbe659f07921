// The sizes and choices of an NFNet (Brock et al.: "High-Performance Large-Scale Image Recognition Without
// Normalization", ICML 2021). The defaults are the published F0, for images of 192 x 192. "The original" is
// deepmind/deepmind-research, nfnets; "the port" is benjs/nfnets_pytorch.
#pragma once
#include <fmt/format.h>

#include "models/images/config.h"

namespace foldgrad {

struct NfNetConfig : ImageModelConfig {
  std::vector<std::int64_t> channels{256, 512, 1536, 1536}, depths{1, 2, 6, 3};  // per stage; depths count blocks
  std::int64_t group_size = 128;  // channels in a group of a block's 3 x 3 convolutions
  std::int64_t stem_stride = 2;   // stride of the first convolution

  // "same": padding as in TensorFlow, so that a map keeps its size or is halved. "port": no padding in the stem, one
  // pixel on each side in blocks; maps with an odd side are also padded before averaging, which includes these zeros.
  static inline const std::vector<std::string> kPaddings{"same", "port"};
  std::string padding = "same";
  // The variance with which convolution weights are standardized: "biased" in the original, "unbiased" in the port.
  static inline const std::vector<std::string> kStandardizations{"biased", "unbiased", "none"};
  std::string standardization = "biased";
  // The activation: "gelu_tanh" in the original, "gelu" in the port.
  static inline const std::vector<std::string> kActivations{"gelu_tanh", "gelu"};
  // The activation in squeeze-and-excitation: "relu" without a factor in the original, "gained" [NF-1] in the port.
  static inline const std::vector<std::string> kGateActivations{"relu", "gained"};
  std::string gate_activation = "relu";
  static inline const std::vector<std::string> kInitializations{"original", "port"};
  std::string initialization = "original";

  static constexpr std::int64_t kMostStages = 16;
  // Also sets the published defaults: no normalizer, gelu_tanh, and the drop probabilities.
  NfNetConfig();

  std::int64_t stages() const { return std::int64_t(channels.size()); }
  std::int64_t side() const;  // side length in pixels of the last map
  // Returns a value even for configurations that validate() refuses.
  std::int64_t smallest_image() const;
  void validate() const;
  bool operator==(const NfNetConfig&) const = default;
};

void visit_keys(KeysOf<NfNetConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const auto model = keys_in("model", v);
  const Range size = within(1, kMostOfASize);
  needed(m.channels, "channels", "",
         "Number of channels in each stage; the first must be a multiple of 16; every stage after the first halves the "
         "feature map",
         size);
  needed(m.depths, "depths", "", "Number of blocks in each stage", size);
  needed(m.group_size, "group_size", "channels",
         "Number of channels per group in grouped convolutions; must divide half the channels of each stage", size);
  needed(m.stem_stride, "stem_stride", "", "Stride of the first convolution", within(1, 2));
  needed(m.padding, "padding", "Zero padding of feature maps: same (as published) or port (as in the port to PyTorch)",
         m.kPaddings);
  needed(m.standardization, "standardization",
         "Standardization of convolution weights: with the biased variance (as published), with the unbiased variance "
         "(as in the port), or none",
         m.kStandardizations);
  needed(m.activation, "activation", "Activation: gelu_tanh (as published) or gelu (as in the port)", m.kActivations);
  needed(m.gate_activation, "gate_activation",
         "Activation in squeeze-and-excitation: relu without a factor (as published), or model.activation with its "
         "factor (as in the port to PyTorch)",
         m.kGateActivations);
  visit_data_size_keys(m, v);
  model(m.dropout, "dropout", "", "Dropout rate for the classifier's input", kFraction);
  model(m.drop_path, "drop_path", "",
        "Stochastic depth: block i of N, counting from 0, skips its branch for an image with i / N times this "
        "probability",
        kFraction);
  model(m.initialization, "initialization", "Initial weights", m.kInitializations);
  visit_data_and_normalizer_keys(m, v);
}

inline ExpectedParameters expected_parameters(const NfNetConfig& c) {
  const std::int64_t last = c.channels.back();
  ExpectedParameters all{{"final_conv.weight", {2 * last, last, 1, 1}}, {"head.fc.weight", {c.classes, 2 * last}}};
  std::int64_t in = c.channels[0] / 2;
  for (std::size_t stage = 0; stage < c.channels.size(); ++stage) {
    const std::int64_t out = c.channels[stage];
    all.push_back({fmt::format("stages.{}.0.downsample.conv.weight", stage), {out, in, 1, 1}});
    all.push_back(
        {fmt::format("stages.{}.{}.conv2.weight", stage, c.depths[stage] - 1), {out / 2, c.group_size, 3, 3}});
    in = out;
  }
  return all;
}

}  // namespace foldgrad
