// The configuration of an NFNet for experiments and files (models/blocks/keys.h).
#pragma once
#include <fmt/format.h>

#include "models/images/family.h"
#include "models/nfnet/config.h"

namespace foldgrad {

void visit_keys(KeysOf<NfNetConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const auto model = keys_in("model", v);
  const Range size = within(1, kMostOfASize);
  needed(m.channels, "channels", "",
         "Number of channels in each stage; the first must be a multiple of 16; every stage after the first halves the "
         "feature map",
         size);
  needed(m.depths, "depths", "", "Blocks of each stage", size);
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
