// Tests that large results, which bypass the caches (engine/cpu/write.h), equal small ones. Computes the first rows of
// a large matrix once together with the other rows, and once without them.
#include "engine/cpu/write.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/dropout/dropout.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Rows of 4,000 bytes end inside a cache line. kMany rows are just enough to bypass the caches.
constexpr std::int64_t kColumns = 1000, kFew = 5, kMany = kBypassBytes / 4 / kColumns + 1;

// Returns f64 numbers that f32 can represent.
Tensor values(Shape shape) {
  std::vector<double> v(shape.elements());
  std::uint32_t state = 1;
  for (double& x : v) x = double((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-22 - 2;
  return Tensor::of(std::move(shape), v);
}

TEST(LargeResults, HaveTheBitsOfSmallOnes) {
  const Tensor x = values({kMany, kColumns}), gain = values({kColumns}).to(DType::f32);
  const Tensor &dy = x, &bias = gain;
  const ChannelNormOptions options = ChannelNormOptions::bn();
  const ChannelNormState state = ChannelNormState::create(options, kColumns, DType::f32, Device::cpu);
  const auto constant = [](const Var& v, const Tensor& t) { return v.tape().constant(t); };
  const auto variable = [](const Var& v, const Tensor& t) { return v.tape().variable(t); };
  const std::pair<const char*, std::function<Var(const Var&)>> functions[] = {
      {"relu", [](const Var& v) { return relu(v); }},
      {"gelu", [](const Var& v) { return gelu(v); }},
      {"scale", [](const Var& v) { return scale(v, 3); }},
      {"bias_activation", [&](const Var& v) { return bias_activation(v, variable(v, bias), Activation::gelu_tanh); }},
      {"bias_activation, bias constant",
       [&](const Var& v) { return bias_activation(v, constant(v, bias), Activation::silu); }},
      {"affine", [&](const Var& v) { return affine(v, constant(v, gain), constant(v, bias)); }},
      {"dropout",
       [](const Var& v) {
         return dropout(v, 0.3, Random{1, 2, 3});
       }},
      {"bias_dropout_residual",
       [&](const Var& v) {
         return bias_dropout_residual(v, variable(v, bias), constant(v, v.value()), 0.3, Random{1, 2, 3});
       }},
      {"bias_dropout_residual with drop path, bias constant",
       [&](const Var& v) {
         const DropPath path{.p = 0.5, .random = {4, 5, 6}};
         return bias_dropout_residual(v, constant(v, bias), constant(v, v.value()), 0.3, Random{1, 2, 3}, path);
       }},
      {"layer_norm", [&](const Var& v) { return layer_norm(v, constant(v, gain), constant(v, bias)); }},
      {"rms_norm", [&](const Var& v) { return rms_norm(v, constant(v, gain)); }},
      {"softmax", [](const Var& v) { return softmax(v); }},
      {"channel_norm",
       [&](const Var& v) {
         return channel_norm(v, constant(v, gain), constant(v, bias), state, options, {.training = false});
       }},
  };
  for (const auto& [name, f] : functions) {
    const auto run = [&, &f = f](const Tensor& rows, const Tensor& up) {
      return results_of([&](auto& v) { return f(v[0]); }, {rows}, up, DType::f32);
    };
    const OpResult many = run(x, dy), few = run(x.slice(0, kFew), dy.slice(0, kFew));
    EXPECT_TRUE(close(many.y.slice(0, kFew), few.y, 0)) << name;
    EXPECT_TRUE(close(many.grads[0].slice(0, kFew), few.grads[0], 0)) << name;
  }
}

}  // namespace
}  // namespace foldgrad::testing
