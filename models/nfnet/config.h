// The sizes and choices of an NFNet (Brock et al.: "High-Performance Large-Scale Image Recognition Without
// Normalization", ICML 2021). The defaults are the published F0, for images of 192 x 192. "The original" is
// deepmind/deepmind-research, nfnets; "the port" is benjs/nfnets_pytorch.
#pragma once
#include "models/images/config.h"

namespace foldgrad {

struct NfNetConfig : ImageModelConfig {
  std::vector<std::int64_t> channels{256, 512, 1536, 1536}, depths{1, 2, 6, 3};  // per stage; depths count blocks
  std::int64_t group_size = 128;  // channels in a group of a block's 3 x 3 convolutions
  std::int64_t stem_stride = 2;   // stride of the first convolution

  // "same": padding as in TensorFlow, so that a map keeps its size or is halved. "port": no padding in the stem, and
  // one pixel on each side in blocks; maps with an odd side are also padded before averaging, and the zeros count.
  static inline const std::vector<std::string> kPaddings{"same", "port"};
  std::string padding = "same";
  // The variance that standardizes the weights of convolutions: "biased" in the original, "unbiased" in the port.
  static inline const std::vector<std::string> kStandardizations{"biased", "unbiased", "none"};
  std::string standardization = "biased";
  static inline const std::vector<std::string> kActivations{"gelu_tanh", "gelu"};  // the original's, the port's
  // The activation in squeeze-and-excitation: "relu" without a factor in the original, "gained" [NF-1] in the port.
  static inline const std::vector<std::string> kGateActivations{"relu", "gained"};
  std::string gate_activation = "relu";
  static inline const std::vector<std::string> kInitializations{"original", "port"};
  std::string initialization = "original";

  static constexpr std::int64_t kMostStages = 16;

  // Also sets the published choices: no normalizer, gelu_tanh, and the drop probabilities.
  NfNetConfig();

  std::int64_t stages() const { return std::int64_t(channels.size()); }
  std::int64_t side() const;  // side length in pixels of the last map
  // Returns a value even for configurations that validate() refuses.
  std::int64_t smallest_image() const;

  void validate() const;

  bool operator==(const NfNetConfig&) const = default;
};

}  // namespace foldgrad
