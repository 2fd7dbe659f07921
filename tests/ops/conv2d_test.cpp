#include "ops/conv2d/conv2d.h"

#include "ops/activation/activation.h"
#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

using Options = Conv2dChannelsLastOptions;

OpFunction conv_of(Options o) {
  return [o](auto& v) {
    return v.size() == 3 ? conv2d_channels_last(v[0], v[1], v[2], o) : conv2d_channels_last(v[0], v[1], o);
  };
}
OpCase conv_case(const Shape& x, const Shape& weight, Options o = {}, bool bias = true) {
  OpCase c = random_case(
      {x, weight},
      fmt::format("{} by {}, stride {}, padding {} + {}, groups {}, {}, bias {}", x, weight, o.stride, o.padding,
                  o.extra_padding, o.groups, o.activation ? name(*o.activation) : "no activation", bias),
      conv_of(o));
  if (bias) c.operands.push_back(randn({weight[0]}, 3));
  return c;
}
OpError conv_error(const char* message, const Shape& x, const Shape& weight, Options o = {}, const Shape& bias = {5}) {
  return error_of_zeros(message, {x, weight, bias}, conv_of(o));
}

// In some cases, kernel positions overlap, leave gaps, do not reach the border, or see only padding; some kernels are
// one pixel. The slope of an activation is computed from y (relu, tanh) or from z (gelu, silu). Some cases have a bias,
// groups of several channels, depthwise convolutions, or more padding at the end.
std::vector<OpCase> conv_cases() {
  return {conv_case({2, 3, 3, 2}, {2, 2, 2, 2}),
          conv_case({2, 2, 2, 2}, {2, 2, 2, 2}, {}, false),
          conv_case({1, 4, 3, 2}, {3, 2, 3, 1}, {.padding = 1, .activation = Activation::gelu}),
          conv_case({1, 5, 5, 1}, {2, 1, 3, 3}, {.stride = 2, .padding = 1, .activation = Activation::gelu}, false),
          conv_case({2, 3, 2, 3}, {4, 3, 1, 1}, {.activation = Activation::relu}, false),
          conv_case({1, 3, 4, 2}, {2, 2, 2, 3}, {.padding = 1, .activation = Activation::tanh}),
          conv_case({1, 2, 3, 1}, {2, 1, 2, 2}, {.stride = 2, .padding = 3, .activation = Activation::silu}),
          conv_case({0, 3, 3, 2}, {4, 2, 3, 3}, {.padding = 1, .activation = Activation::relu}),
          conv_case({2, 3, 3, 0}, {4, 0, 3, 3}, {.padding = 1, .activation = Activation::gelu}),
          conv_case({2, 3, 3, 2}, {0, 2, 3, 3}),
          conv_case({2, 9, 8, 3}, {17, 3, 3, 3}, {.padding = 1, .activation = Activation::gelu}),
          conv_case({3, 7, 5, 16}, {32, 16, 3, 3}, {.stride = 2, .padding = 1, .activation = Activation::relu}, false),
          conv_case({2, 3, 4, 6}, {4, 3, 2, 3}, {.padding = 1, .groups = 2}),
          conv_case({1, 4, 3, 4}, {8, 1, 3, 3}, {.padding = 1, .activation = Activation::relu, .groups = 4}, false),
          conv_case({2, 3, 3, 2}, {2, 1, 2, 2}, {.activation = Activation::gelu, .groups = 2}),
          conv_case({1, 5, 4, 3}, {3, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 3}, false),
          conv_case({0, 3, 3, 2}, {2, 1, 3, 3}, {.padding = 1, .groups = 2}),
          conv_case({3, 9, 8, 17}, {17, 1, 7, 7}, {.padding = 3, .groups = 17}),
          conv_case({2, 8, 8, 32}, {64, 8, 3, 3}, {.padding = 1, .groups = 4}),
          conv_case({2, 8, 8, 16}, {16, 1, 7, 7}, {.padding = 3, .groups = 16}),
          conv_case({1, 4, 6, 2}, {3, 2, 3, 3}, {.stride = 2, .extra_padding = 1}),
          conv_case({1, 4, 4, 2}, {2, 1, 5, 5}, {.stride = 2, .padding = 1, .groups = 2, .extra_padding = 1}),
          conv_case({2, 8, 8, 16}, {16, 1, 3, 3}, {.stride = 2, .groups = 16, .extra_padding = 1})};
}
const RegisterOp kConv2dChannelsLast({
    .name = "conv2d_channels_last",
    .cases = conv_cases(),
    .errors =
        {conv_error("conv2d_channels_last: groups must be positive and divide the channels of x and of the "
                    "result, 6 and 5, got 3",
                    {1, 4, 4, 6}, {5, 2, 2, 2}, {.groups = 3}),
         conv_error("conv2d_channels_last: groups must be positive and divide the channels of x and of the "
                    "result, 4 and 6, got 3",
                    {1, 4, 4, 4}, {6, 2, 2, 2}, {.groups = 3}),
         conv_error("conv2d_channels_last: groups must be positive and divide the channels of x and of the "
                    "result, 3 and 5, got 0",
                    {1, 4, 4, 3}, {5, 3, 2, 2}, {.groups = 0}),
         conv_error("conv2d_channels_last: weight must be f32 [4, 3, 2, 2] on cpu (x is f32 [1, 4, 4, 6] on cpu), got "
                    "f32 [4, 6, 2, 2] on cpu",
                    {1, 4, 4, 6}, {4, 6, 2, 2}, {.groups = 2}, {4}),
         conv_error("conv2d_channels_last: weight must be f32 [5, 3, 2, 2] on cpu (x is f32 [1, 4, 4, 3] on cpu), got "
                    "f32 [5, 4, 2, 2] on cpu",
                    {1, 4, 4, 3}, {5, 4, 2, 2}),
         conv_error(
             "conv2d_channels_last: bias must be f32 [5] on cpu (x is f32 [1, 4, 4, 3] on cpu), got f32 [4] on cpu",
             {1, 4, 4, 3}, {5, 3, 2, 2}, {}, {4}),
         conv_error("conv2d_channels_last: the kernel must lie within the image 4 x 6 with padding 0 on each "
                    "side, got 5 x 2",
                    {1, 4, 6, 3}, {5, 3, 5, 2}),
         conv_error("conv2d_channels_last: stride must be positive and padding not negative, got stride 0, "
                    "padding -1",
                    {1, 4, 4, 3}, {5, 3, 2, 2}, {.stride = 0, .padding = -1}),
         conv_error("conv2d_channels_last: extra_padding must not be negative, got -1", {1, 4, 4, 3}, {5, 3, 2, 2},
                    {.extra_padding = -1}),
         conv_error("conv2d_channels_last: x must be [B, H, W, C], got [1, 4, 4, 3, 3]", {1, 4, 4, 3, 3}, {5, 3, 2, 2}),
         conv_error("conv2d_channels_last: x must be f32, f64 or bf16 of rank 4 or more, got f32 [4, 4, 3] on "
                    "cpu",
                    {4, 4, 3}, {5, 3, 2, 2})},
    // dweight is a sum of up to 216 products.
    .f32_roundoffs = 400,
    // If no library supports the case, an element of dx is a sum of up to nine rounded numbers.
    .bf16_roundoffs = 32,
});

// The image is a row of three pixels with channels (1, 10), (2, 20), (3, 30). The kernel's upper and lower row see only
// padding. z = (10002, 21005, 32008, 3003) - 15000, so dz = (0, 1, 2, 0).
TEST(Conv2dChannelsLast, CONV_4_CONV_5_CONV_6_CONV_7_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 1, 3, 2}, {1, 10, 2, 20, 3, 30}),
                               numbers({1, 2, 3, 2}, {7, 7, 1, 2, 7, 7,  //
                                                      7, 7, 100, 1000, 7, 7}),
                               numbers({1}, {-15000})},
                  .y = {0, 6005, 17008, 0},
                  .dy = {5, 1, 2, 7},
                  .gradients = {{1, 100, 4, 1200, 4, 2000}, {0, 0, 5, 8, 0, 0, 0, 0, 50, 80, 0, 0}, {3}},
                  .shape = Shape{1, 1, 4, 1}},
                 conv_of({.padding = 1, .activation = Activation::relu}));
}

// Returns y = silu(z) and the gradients of x, weight and bias. Computes z, and the gradients from dz = dy silu'(z), by
// definition: as sums over all kernel entries that hit the image.
std::vector<Tensor> definition(const std::vector<Tensor>& in, const Shape& y_shape, Options o) {
  const std::int64_t H = in[0].shape()[1], W = in[0].shape()[2], C = in[0].shape()[3];
  const std::int64_t O = y_shape[3], Kh = in[1].shape()[2], Kw = in[1].shape()[3], of_group = C / o.groups,
                     K = of_group * Kh * Kw;
  const Tensor dy = cotangent(y_shape);
  const double *x = in[0].data<double>(), *weight = in[1].data<double>();
  std::vector<Tensor> want;
  for (const Shape& shape : {y_shape, in[0].shape(), in[1].shape(), in[2].shape()})
    want.push_back(Tensor::zeros(shape, DType::f64));
  const auto to = [&](int i) { return want[std::size_t(i)].data<double>(); };
  for (std::int64_t e = 0; e < y_shape.elements(); ++e) {
    const std::int64_t out = e % O, left = e / O % y_shape[2] * o.stride - o.padding,
                       top = e / O / y_shape[2] % y_shape[1] * o.stride - o.padding,
                       b = e / O / y_shape[2] / y_shape[1];
    // Calls f(i, k) for every kernel entry k that hits the image; i is the element of x that it hits.
    const auto for_hits = [&](const auto& f) {
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t h = top + k / Kw % Kh, g = left + k % Kw;
        const std::int64_t c = out / (O / o.groups) * of_group + k / Kw / Kh;
        if (0 <= h && h < H && 0 <= g && g < W) f(((b * H + h) * W + g) * C + c, out * K + k);
      }
    };
    double z = in[2].data<double>()[out];
    for_hits([&](std::int64_t i, std::int64_t k) { z += weight[k] * x[i]; });
    const double s = 1 / (1 + std::exp(-z)), dz = dy.data<double>()[e] * (s + z * s * (1 - s));
    to(0)[e] = z * s;
    for_hits([&](std::int64_t i, std::int64_t k) {
      to(1)[i] += dz * weight[k];
      to(2)[k] += dz * x[i];
    });
    to(3)[out] += dz;
  }
  return want;
}

RC_GTEST_PROP(Conv2dChannelsLast, CONV_4_CONV_5_CONV_6_CONV_7_EqualTheDefinition, ()) {
  const int B = *rc::gen::inRange(1, 3), C = *rc::gen::inRange(1, 4), H = *rc::gen::inRange(1, 7),
            W = *rc::gen::inRange(1, 7), O = *rc::gen::inRange(1, 4), stride = *rc::gen::inRange(1, 4),
            padding = *rc::gen::inRange(0, 3), Kh = *rc::gen::inRange(1, H + 1), Kw = *rc::gen::inRange(1, W + 1),
            groups = *rc::gen::inRange(1, 4), extra = *rc::gen::inRange(0, 2);
  const Options options{stride, padding, Activation::silu, groups, extra};
  const std::vector<Tensor> operands{randn({B, H, W, C * groups}, 1), randn({O * groups, C, Kh, Kw}, 2),
                                     randn({O * groups}, 3)};
  const OpCase c{.operands = operands, .f = conv_of(options)};
  for (Device device : devices()) {
    const OpResult got = run_case(c, DType::f64, device);
    const std::vector<Tensor> want = definition(operands, got.y.shape(), options);
    RC_ASSERT(bool(close(got.y, want[0], 1e-12)));
    for (std::size_t i = 0; i < 3; ++i) RC_ASSERT(bool(close(got.grads[i], want[i + 1], 1e-12)));
  }
}

// A patch embedding is a convolution whose stride is the patch size. Its output positions are the tokens.
TEST(Conv2d, CONV_2_PatchesAreAConvolution) {
  Tape tape;
  const Var x = tape.constant(randn({2, 4, 6, 3}, 1)), weight = tape.constant(randn({5, 3, 2, 2}, 2)),
            bias = tape.constant(randn({5}, 3));
  const Tensor tokens = patch_embedding(x, weight, bias).value();
  EXPECT_EQ(tokens.shape(), (Shape{2, 6, 5}));
  EXPECT_TRUE(identical(tokens.reshape({2, 2, 3, 5}), conv2d_channels_last(x, weight, bias, {.stride = 2}).value()));
}

// relu must turn NaN into NaN in every precision. A 0 would hide that the network has diverged.
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

}  // namespace
}  // namespace foldgrad::testing
