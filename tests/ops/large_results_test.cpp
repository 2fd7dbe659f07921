// Results so large that they bypass the caches (engine/cpu/write.h) have the bits of small ones: rows that do not
// depend on each other are computed once among many and once alone.
#include <gtest/gtest.h>

#include <functional>

#include "engine/cpu/write.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/dropout/dropout.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kColumns = 1000, kFew = 5, kMany = kBypassBytes / 4 / kColumns + 1;  // rows end inside lines

Tensor values(Shape shape) {
  std::vector<float> v(shape.elements());
  std::uint32_t state = 1;
  for (float& x : v) x = float((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
  return Tensor::of(std::move(shape), v);
}

struct Results {
  Tensor y, dx;
};
using Function = std::function<Var(const Var&)>;

Results run(const Function& f, const Tensor& x, const Tensor& dy) {
  Tape tape;
  const Var v = tape.variable(x), y = f(v);
  tape.backward(y, dy);
  return {y.value(), tape.grad(v)};
}

TEST(LargeResults, HaveTheBitsOfSmallOnes) {
  const Tensor x = values({kMany, kColumns}), dy = values({kMany, kColumns}).reshape({kMany, kColumns});
  const Tensor gain = values({kColumns}), bias = values({kColumns});
  const ChannelNormOptions options = ChannelNormOptions::bn();
  const ChannelNormState state = ChannelNormState::create(options, kColumns, DType::f32, Device::cpu);
  const auto constant = [](const Var& v, const Tensor& t) { return v.tape().constant(t); };
  const auto variable = [](const Var& v, const Tensor& t) { return v.tape().variable(t); };
  const std::pair<const char*, Function> functions[] = {
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
         return channel_norm(v, constant(v, gain), constant(v, bias), state, options, /*training=*/false);
       }},
  };
  for (const auto& [name, f] : functions) {
    const Results many = run(f, x, dy), few = run(f, x.slice(0, kFew), dy.slice(0, kFew));
    EXPECT_EQ(many.y.slice(0, kFew).values<float>(), few.y.values<float>()) << name;
    EXPECT_EQ(many.dx.slice(0, kFew).values<float>(), few.dx.values<float>()) << name;
  }
}

}  // namespace
}  // namespace foldgrad
