// Tests parameters that are rounded to bf16 (Tape::parameter). Their gradients are f32, and equal the gradients that
// the operation computes in f32 from the same numbers, except for the order of summation. Rounding a gradient to bf16
// would add a relative error of up to 2^-8.
#include <random>

#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/center_norm/center_norm.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/dyt/dyt.h"
#include "ops/embedding/embedding.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kRows = 300, kColumns = 24;  // gradients sum at least 300 terms

struct Case {
  const char* name;
  std::vector<Shape> parameters;
  std::function<Var(const Var& x, const std::vector<Var>& parameters)> op;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  const Shape column{kColumns}, scalar{1};
  static const Tensor ids = [] {
    std::vector<std::int64_t> rows(kRows * kColumns);
    // All ids are 0, 1 or 4, so the other three rows get no gradient.
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::int64_t(i * i % 5);
    return Tensor::of<std::int64_t>({kRows * kColumns}, rows);
  }();
  const auto channels = [=](const ChannelNormOptions& options) {
    return [=](const Var& x, const std::vector<Var>& p) {
      const ChannelNormState state = ChannelNormState::create(options, kColumns, DType::f32, x.device());
      return channel_norm(x, p[0], p[1], state, options, {.training = true});
    };
  };
  return {
      {"linear", {{8, kColumns}, {8}}, [](auto& x, auto& p) { return linear(x, p[0], p[1]); }},
      {"conv2d_channels_last",
       {{8, kColumns, 3, 3}, {8}},
       [](auto& x, auto& p) {
         return conv2d_channels_last(reshape(x, {1, 20, kRows / 20, kColumns}), p[0], p[1], {.padding = 1});
       }},
      {"embedding",
       {{6, kColumns}},
       [](auto& x, auto& p) { return embedding(p[0], x.tape().constant(ids.to(x.device())), 3); }},
      {"add_bias", {column}, [](auto& x, auto& p) { return add_bias(x, p[0]); }},
      {"bias_relu", {column}, [](auto& x, auto& p) { return bias_activation(x, p[0], Activation::relu); }},
      {"bias_dropout_residual",
       {column},
       [](auto& x, auto& p) {
         return bias_dropout_residual(x, p[0], x, 0.25, Random{1, 2, 3});
       }},
      {"affine", {column, column}, [](auto& x, auto& p) { return affine(x, p[0], p[1]); }},
      {"scale_by", {scalar}, [](auto& x, auto& p) { return scale_by(x, p[0]); }},
      {"layer_norm", {column, column}, [](auto& x, auto& p) { return layer_norm(x, p[0], p[1]); }},
      {"rms_norm", {column}, [](auto& x, auto& p) { return rms_norm(x, p[0]); }},
      {"scale_norm", {scalar}, [](auto& x, auto& p) { return scale_norm(x, p[0]); }},
      {"center_norm", {column, column}, [](auto& x, auto& p) { return center_norm(x, p[0], p[1]); }},
      {"group_norm",
       {column, column},
       [](auto& x, auto& p) {
         const Segments samples = Segments::equal(10, kRows / 10).to(x.device());
         return group_norm(x, p[0], p[1], 4, &samples);
       }},
      {"channel_norm_un", {column, column}, channels(ChannelNormOptions::un())},
      {"channel_norm_bn", {column, column}, channels(ChannelNormOptions::bn())},
      {"dyt", {scalar, column, column}, [](auto& x, auto& p) { return dyt(x, p[0], p[1], p[2]); }},
      {"derf", {scalar, scalar, column, column}, [](auto& x, auto& p) { return derf(x, p[0], p[1], p[2], p[3]); }},
  };
}

class ParameterGradients : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Operations, ParameterGradients, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Returns random multiples of 1/64 between -2 and 2, all of which bf16 can represent.
Tensor random_numbers(const Shape& shape, unsigned seed, Device device) {
  std::mt19937 random(seed);
  std::vector<float> v(shape.elements());
  for (float& x : v) x = float(int(random() % 255) - 127) / 64;
  return Tensor::of(shape, v, device);
}

std::vector<Parameter> gradients(const Case& c, DType dtype, Device device) {
  std::vector<Parameter> parameters;
  for (const Shape& shape : c.parameters)
    parameters.push_back(
        {fmt::format("p{}", parameters.size()), random_numbers(shape, 10 + unsigned(parameters.size()), device)});
  Tape tape;
  std::vector<Var> vars;
  for (Parameter& p : parameters)
    vars.push_back(dtype == DType::bf16 ? tape.parameter(p, p.value.to(dtype)) : tape.parameter(p));
  const Var y = c.op(tape.constant(random_numbers({kRows, kColumns}, 1, device).to(dtype)), vars);
  tape.backward(y, random_numbers(y.shape(), 2, device).to(dtype));
  return parameters;
}

TEST_P(ParameterGradients, AreAsExactAsInF32) {
  for (Device device : devices()) {
    const std::vector<Parameter> want = gradients(GetParam(), DType::f32, Device::cpu),
                                 got = gradients(GetParam(), DType::bf16, device);
    for (std::size_t k = 0; k < want.size(); ++k) {
      const std::vector<float> w = want[k].grad.values<float>(), g = got[k].grad.values<float>();
      float largest = 0;
      for (float x : w) largest = std::max(largest, std::abs(x));
      // The two gradients add up to 7,200 terms in different orders. In the worst case, they differ by 7,200 roundoffs
      // of the sum of the terms' absolute values; in practice, by a few hundred roundoffs of the result.
      for (std::size_t i = 0; i < w.size(); ++i)
        EXPECT_NEAR(w[i], g[i], 2e-5 * largest) << name(device) << " parameter " << k << " element " << i;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
