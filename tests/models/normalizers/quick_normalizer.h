// Normalizers that pass through all phases of their training in a few steps.
#pragma once
#include "models/normalizers/normalizer.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {

using Options = std::map<std::string, std::string>;

constexpr std::int64_t kChannels = 8;

// Returns options with short windows and warm-ups, so that a few steps pass through all phases.
inline Options quick(const std::string& name) {
  if (name == "un") return {{"window", "2"}, {"warmup", "2"}};
  if (name == "mabn") return {{"window", "2"}, {"warmup", "2"}};
  if (name == "pn_star") return {{"warmup", "2"}};
  if (name == "pn") return {{"warmup", "2"}, {"groups", "2"}};
  if (name == "prepbn") return {{"warmup", "1"}, {"total", "4"}};
  if (name == "groupnorm") return {{"groups", "4"}};
  return {};
}
inline std::unique_ptr<Normalizer> quick_normalizer(const std::string& name, DType dtype, Device device) {
  return make_normalizer(name, quick(name), "norm", kChannels, dtype, device);
}
// Replaces the parameters with random values around 1.
inline void randomize(Normalizer& norm) {
  unsigned seed = 100;
  for (Parameter* p : norm.parameters())
    p->value.copy_from(randn(p->value.shape(), ++seed, 0.3, 1).to(p->value.dtype()).to(p->value.device()));
}

struct Step {
  Tensor y, dx;
};
inline Step train_step(Normalizer& norm, const Tensor& x, const Tensor& dy, std::optional<std::int64_t> counted = {}) {
  Tape tape;
  const Var in = tape.variable(x);
  const Var y = norm.apply(in, {.training = true, .counted = counted});
  tape.backward(y, dy);
  return {y.value(), tape.grad(in)};
}
inline Step train_step(Normalizer& norm, unsigned seed, DType dtype = DType::f64, Device device = Device::cpu) {
  const auto draw = [&](unsigned s) { return randn({2, 5, kChannels}, s, 1, 0.3).to(dtype).to(device); };
  return train_step(norm, draw(seed), draw(seed + 1000));
}
inline Tensor infer(Normalizer& norm, const Tensor& x) {
  Tape tape(false);
  return norm.apply(tape.constant(x), {}).value();
}

}  // namespace foldgrad::testing
