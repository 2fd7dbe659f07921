#include "ops/conv2d/conv2d_channels_last.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "engine/gemm/gemm.h"
#include "ops/activation/activation.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_checks.h"
#include "ops/conv2d/conv2d_products.h"
#include "ops/permute/permute.h"
#include "tests/harness/compare.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

using Options = Conv2dChannelsLastOptions;

OpCase conv_case(Shape x, Shape weight, Options o = {}, bool bias = true, bool large = false) {
  OpCase c{.label = fmt::format("{} by {}, stride {}, padding {}, {}, bias {}", x, weight, o.stride, o.padding,
                                o.activation ? name(*o.activation) : "no activation", bias),
           .operands = {randn(x, 1), randn(weight, 2)},
           .f =
               [=](const std::vector<Var>& v) {
                 return v.size() == 3 ? conv2d_channels_last(v[0], v[1], v[2], o) : conv2d_channels_last(v[0], v[1], o);
               },
           .large = large};
  if (bias) c.operands.push_back(randn({weight[0]}, 3));
  return c;
}

Var zeros(Tape& t, Shape shape) { return t.constant(Tensor::zeros(std::move(shape), DType::f32)); }

OpError conv_error(const char* message, Shape x, Shape weight, Options o = {}, Shape bias = {5}) {
  return {message, [=](Tape& t) { conv2d_channels_last(zeros(t, x), zeros(t, weight), zeros(t, bias), o); }};
}

// Kernels that overlap, leave gaps, do not reach the border, are single pixels, or see padding only; every kind of
// activation (its slope from y or from z), with a bias and without.
const RegisterOp kConv2dChannelsLast({
    .name = "conv2d_channels_last",
    .cases = {conv_case({2, 3, 3, 2}, {2, 2, 2, 2}), conv_case({2, 2, 2, 2}, {2, 2, 2, 2}, {}, false),
              conv_case({1, 4, 3, 2}, {3, 2, 3, 1}, {.padding = 1, .activation = Activation::gelu}),
              conv_case({1, 5, 5, 1}, {2, 1, 3, 3}, {.stride = 2, .padding = 1, .activation = Activation::gelu}, false),
              conv_case({2, 3, 2, 3}, {4, 3, 1, 1}, {.activation = Activation::relu}, false),
              conv_case({1, 3, 4, 2}, {2, 2, 2, 3}, {.padding = 1, .activation = Activation::tanh}),
              conv_case({1, 2, 3, 1}, {2, 1, 2, 2}, {.stride = 2, .padding = 3, .activation = Activation::silu}),
              conv_case({0, 3, 3, 2}, {4, 2, 3, 3}, {.padding = 1, .activation = Activation::relu}),
              conv_case({2, 3, 3, 0}, {4, 0, 3, 3}, {.padding = 1, .activation = Activation::gelu}),
              conv_case({2, 3, 3, 2}, {0, 2, 3, 3}),
              conv_case({2, 9, 8, 3}, {17, 3, 3, 3}, {.padding = 1, .activation = Activation::gelu}, true, true),
              conv_case({3, 7, 5, 16}, {32, 16, 3, 3}, {.stride = 2, .padding = 1, .activation = Activation::relu},
                        false, true)},
    .errors = {conv_error("conv2d_channels_last: weight must be f32 [5, 3, 2, 2] on cpu, to go with x, which is f32 "
                          "[1, 4, 4, 3] on cpu, got f32 [5, 4, 2, 2] on cpu",
                          {1, 4, 4, 3}, {5, 4, 2, 2}),
               conv_error("conv2d_channels_last: bias must be f32 [5] on cpu, to go with x, which is f32 [1, 4, 4, 3] "
                          "on cpu, got f32 [4] on cpu",
                          {1, 4, 4, 3}, {5, 3, 2, 2}, {}, {4}),
               conv_error("conv2d_channels_last: the kernel must lie within the image 4 x 6 with padding 0 on each "
                          "side, got 5 x 2",
                          {1, 4, 6, 3}, {5, 3, 5, 2}),
               conv_error("conv2d_channels_last: stride must be positive and padding not negative, got stride 0, "
                          "padding -1",
                          {1, 4, 4, 3}, {5, 3, 2, 2}, {.stride = 0, .padding = -1}),
               conv_error("conv2d_channels_last: x must be [B, H, W, C], got [1, 4, 4, 3, 3]", {1, 4, 4, 3, 3},
                          {5, 3, 2, 2}),
               conv_error("conv2d_channels_last: x must be f32, f64 or bf16 with at least 4 axes, got f32 [4, 4, 3] on "
                          "cpu",
                          {4, 4, 3}, {5, 3, 2, 2})},
    // dweight sums up to 144 products.
    .f32_roundoffs = 400,
    // Where no library has the case, nine rounded numbers make one of dx.
    .bf16_roundoffs = 32,
});

// One row of three pixels with channels (1, 10), (2, 20), (3, 30). The kernel's upper and lower row see padding only.
TEST(Conv2dChannelsLast, CONV_4_CONV_5_CONV_6_CONV_7_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 1, 3, 2}, {1, 10, 2, 20, 3, 30}, device));
    const Var weight = tape.variable(Tensor::of<double>({1, 2, 3, 2},
                                                        {7, 7, 1, 2, 7, 7,  //
                                                         7, 7, 100, 1000, 7, 7},
                                                        device));
    const Var bias = tape.variable(Tensor::of<double>({1}, {-15000}, device));
    const Var y = conv2d_channels_last(x, weight, bias, {.padding = 1, .activation = Activation::relu});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 4, 1}));  // z = 10002, 21005, 32008, 3003, less 15000
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{0, 6005, 17008, 0}));
    tape.backward(y, Tensor::of<double>({1, 1, 4, 1}, {5, 1, 2, 7}, device));  // dz = 0, 1, 2, 0
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1, 100, 4, 1200, 4, 2000}));
    EXPECT_EQ(tape.grad(weight).values<double>(), (std::vector<double>{0, 0, 5, 8, 0, 0,  //
                                                                       0, 0, 50, 80, 0, 0}));
    EXPECT_EQ(tape.grad(bias).values<double>(), std::vector<double>{3});
  }
}

// Equals conv2d, whose sums are tested against their definition, on the same image with its channels first.
RC_GTEST_PROP(Conv2dChannelsLast, CONV_4_CONV_5_CONV_6_CONV_7_EqualConv2d, ()) {
  const int B = *rc::gen::inRange(1, 3), C = *rc::gen::inRange(1, 4), H = *rc::gen::inRange(1, 7),
            W = *rc::gen::inRange(1, 7), O = *rc::gen::inRange(1, 4), stride = *rc::gen::inRange(1, 4),
            padding = *rc::gen::inRange(0, 3), Kh = *rc::gen::inRange(1, H + 1), Kw = *rc::gen::inRange(1, W + 1);
  const std::vector<Tensor> operands{randn({B, C, H, W}, 1), randn({O, C, Kh, Kw}, 2), randn({O}, 3)};
  for (Device device : devices()) {
    std::vector<Tensor> results[2];
    for (int last = 0; last < 2; ++last) {
      Tape tape;
      std::vector<Var> v;
      for (const Tensor& t : operands) v.push_back(tape.variable(t.to(device)));
      const Var y = last ? permute(conv2d_channels_last(permute(v[0], {0, 2, 3, 1}), v[1], v[2],
                                                        {stride, padding, Activation::silu}),
                                   {0, 3, 1, 2})
                         : silu(conv2d(v[0], v[1], v[2], {stride, padding}));
      tape.backward(y, cotangent(y.shape()).to(device));
      results[last] = {y.value(), tape.grad(v[0]), tape.grad(v[1]), tape.grad(v[2])};
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) RC_ASSERT(bool(close(results[1][i], results[0][i], 1e-12)));
  }
}

// A network that has diverged must not look as if it were dead: max(NaN, 0) is NaN in every precision.
TEST(Conv2dChannelsLast, ANaNIsNotHiddenByRelu) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Tensor image = randn({1, 4, 4, 16}, 1);
      image.data<double>()[0] = std::nan("");
      Tape tape;
      const Var x = tape.constant(image.to(dtype).to(device));
      const Var weight = tape.constant(randn({16, 16, 3, 3}, 2).to(dtype).to(device));
      const std::vector<double> y = conv2d_channels_last(x, weight, {.padding = 1, .activation = Activation::relu})
                                        .value()
                                        .to(DType::f64)
                                        .values<double>();
      for (int o = 0; o < 16; ++o) {
        EXPECT_TRUE(std::isnan(y[o])) << name(dtype) << " on " << name(device);
        EXPECT_FALSE(std::isnan(y[15 * 16 + o])) << name(dtype) << " on " << name(device);
      }
    }
}

// z as a model without a tape computes it, over and over.
TEST(Conv2dChannelsLast, TakesTurnsBetweenShapes) {
  const Tensor weight = randn({16, 16, 3, 3}, 2).to(DType::f32);
  std::vector<Tensor> first;
  for (int round = 0; round < 2; ++round)
    for (std::int64_t size = 3; size < 6; ++size) {
      Tape tape(/*recording=*/false);
      const Var x = tape.constant(randn({2, size, 4, 16}, unsigned(size)).to(DType::f32));
      const Tensor y = conv2d_channels_last(x, tape.constant(weight), {.padding = 1}).value();
      if (round == 0)
        first.push_back(y);
      else
        EXPECT_TRUE(identical(y, first[size - 3])) << size;
    }
}

struct Case {
  Shape x, weight;
  Conv2dOptions options;
};

// As stems of vision models have them; odd sizes; single pixels; strides; images that the last kernel does not reach.
const Case kCases[] = {{{2, 32, 32, 3}, {64, 3, 3, 3}, {1, 1}},   {{2, 16, 16, 64}, {128, 64, 3, 3}, {1, 1}},
                       {{1, 16, 16, 32}, {64, 32, 3, 3}, {2, 1}}, {{3, 7, 5, 16}, {33, 16, 3, 3}, {1, 0}},
                       {{2, 9, 9, 17}, {5, 17, 3, 2}, {2, 1}},    {{2, 6, 7, 48}, {32, 48, 1, 1}, {1, 0}},
                       {{2, 8, 8, 16}, {16, 16, 1, 1}, {3, 0}},   {{1, 12, 12, 8}, {24, 8, 5, 5}, {1, 2}},
                       {{1, 8, 8, 3}, {16, 3, 4, 4}, {4, 0}},     {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 0}}};

const Conv2dPass kPasses[] = {Conv2dPass::y, Conv2dPass::dx, Conv2dPass::dweight};
const char* name(Conv2dPass pass) { return pass == Conv2dPass::y ? "y" : pass == Conv2dPass::dx ? "dx" : "dweight"; }

// The tensors of one product in f64, of which one is to be written.
struct Operands {
  Tensor x, weight, y, bias;

  explicit Operands(const Case& c, const Conv2dSizes& s)
      : x(randn(c.x, 1)),
        weight(randn(c.weight, 2, 0.1)),
        y(randn({s.batch, s.out_height, s.out_width, c.weight[0]}, 3)),
        bias(randn({c.weight[0]}, 4)) {}
  Operands as(DType dtype) const {
    Operands other = *this;
    for (Tensor* t : {&other.x, &other.weight, &other.y, &other.bias}) *t = t->to(dtype).clone();
    return other;
  }
  Conv2dBuffers buffers(bool with_bias) const {
    return {x.raw(), weight.raw(), y.raw(), with_bias ? bias.raw() : nullptr};
  }
  const Tensor& of(Conv2dPass pass) const { return pass == Conv2dPass::y ? y : pass == Conv2dPass::dx ? x : weight; }
};

// Runs `body` for every case, pass and lower precision, with what must come out.
template <class Body>
void for_each_product(const Body& body) {
  for (const Case& c : kCases)
    for (Conv2dPass pass : kPasses)
      for (DType dtype : {DType::f32, DType::bf16}) {
        const Conv2dSizes s = conv2d_sizes("test", Tensor::zeros(c.x, DType::f32), c.weight[2], c.weight[3], c.options,
                                           /*channels_last=*/true);
        const Operands at = Operands(c, s).as(dtype), want = at.as(DType::f64);
        const bool with_bias = pass == Conv2dPass::y;
        plain_conv2d_product(Device::cpu, {pass, DType::f64, s, c.weight[0]}, want.buffers(with_bias));
        SCOPED_TRACE(fmt::format("{} of {} by {}, stride {}, padding {}, {}", name(pass), c.x, c.weight,
                                 c.options.stride, c.options.padding, foldgrad::name(dtype)));
        body(Conv2dProduct{pass, dtype, s, c.weight[0]}, at, at.buffers(with_bias), want.of(pass));
      }
}

// Sums of up to 2,048 products of which each has magnitude 1; bf16 rounds each result once, and our own dx each of up
// to 25 summands.
double tolerance(DType dtype, double bf16_roundoffs) {
  return dtype == DType::f32 ? 1000 * std::ldexp(1, -24) : bf16_roundoffs * std::ldexp(1, -9);
}

TEST(Conv2dProducts, CONV_4_CONV_5_CONV_6_OfOurLoopsInLowerPrecision) {
  for_each_product([](const Conv2dProduct& p, const Operands& at, const Conv2dBuffers& buffers, const Tensor& want) {
    plain_conv2d_product(Device::cpu, p, buffers);
    EXPECT_TRUE(close(at.of(p.pass), want, tolerance(p.dtype, 16)));
  });
}

#ifdef FOLDGRAD_HAVE_ONEDNN
bool onednn_is_used(DType dtype) { return std::string_view(gemm_backend(Device::cpu, dtype)).substr(0, 6) == "oneDNN"; }

TEST(Conv2dProducts, CONV_4_CONV_5_CONV_6_OfOnednn) {
  if (!onednn_is_used(DType::f32)) GTEST_SKIP() << "this build leaves libraries alone";
  int in_f32 = 0;
  for_each_product([&](const Conv2dProduct& p, const Operands& at, const Conv2dBuffers& buffers, const Tensor& want) {
    if (!onednn_conv2d_product(p, buffers)) return;
    in_f32 += p.dtype == DType::f32;
    EXPECT_TRUE(close(at.of(p.pass), want, tolerance(p.dtype, 2)));
  });
  EXPECT_GE(in_f32, 15);  // of 30: it is oneDNN that was tested
}

// Leaves as it was what it refuses.
TEST(Conv2dProducts, OnednnRefusesKernelsThatSeePaddingOnly) {
  if (!onednn_is_used(DType::f32)) GTEST_SKIP() << "this build leaves libraries alone";
  const Case c{{1, 2, 2, 4}, {4, 4, 1, 1}, {1, 1}};
  const Conv2dSizes s = conv2d_sizes("test", Tensor::zeros(c.x, DType::f32), 1, 1, c.options, /*channels_last=*/true);
  const Operands at = Operands(c, s).as(DType::f32), before = at.as(DType::f32);
  EXPECT_FALSE(onednn_conv2d_product({Conv2dPass::y, DType::f32, s, 4}, at.buffers(true)));
  EXPECT_TRUE(identical(at.y, before.y));
}
#endif

}  // namespace
}  // namespace foldgrad::testing
