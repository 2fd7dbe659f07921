// Small checkpoints for tests.
#pragma once
#include "tests/harness/compare.h"
#include "train/checkpoints/checkpoint.h"

namespace foldgrad::testing {

inline CheckpointContents contents_of_step(std::int64_t step) {
  CheckpointContents c;
  c.step = step;
  c.config_hash = "hash";
  c.log_offset = std::uint64_t(100 * step);
  c.model = {{"w", Tensor::of<float>({2, 2}, {float(step), -0.0f, std::nanf("7"), 1e-45f})},
             {"b", Tensor::of<double>({1}, {0.1 * double(step)})}};
  c.optimizer = {{"step", Tensor::of<std::int64_t>({}, {step})}};
  c.norm_state = {{"ring", Tensor::of<std::uint8_t>({3}, {1, 0, 255})}, {"none", Tensor::zeros({0, 4}, DType::f32)}};
  c.state = {{"epoch", 3}, {"best", 0.1 + 0.2}, {"seed", std::numeric_limits<std::int64_t>::max()}};
  return c;
}

inline bool same_bits(const NamedTensors& a, const NamedTensors& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.first == y.first && identical(x.second, y.second); });
}

inline bool same(const CheckpointContents& a, const CheckpointContents& b) {
  return a.step == b.step && a.config_hash == b.config_hash && a.log_offset == b.log_offset &&
         same_bits(a.model, b.model) && same_bits(a.optimizer, b.optimizer) && same_bits(a.norm_state, b.norm_state) &&
         a.state == b.state;
}

}  // namespace foldgrad::testing
