#include "ops/conv2d/conv2d.h"

#include <gtest/gtest.h>

#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

OpCase unfold_case(Shape x, std::int64_t height, std::int64_t width, Conv2dOptions o = {}, bool large = false) {
  return {.label = fmt::format("{}, {} x {}, stride {}, padding {}", x, height, width, o.stride, o.padding),
          .operands = {randn(x, 1)},
          .f = [=](const std::vector<Var>& v) { return unfold(v[0], height, width, o); },
          .large = large};
}

OpCase conv2d_case(Shape x, Shape weight, Conv2dOptions o = {}, bool bias = true, bool large = false) {
  OpCase c{.label = fmt::format("{} by {}, stride {}, padding {}", x, weight, o.stride, o.padding),
           .operands = {randn(x, 1), randn(weight, 2)},
           .f =
               [=](const std::vector<Var>& v) {
                 return v.size() == 3 ? conv2d(v[0], v[1], v[2], o) : conv2d(v[0], v[1], o);
               },
           .large = large};
  if (bias) c.operands.push_back(randn({weight[0]}, 3));
  return c;
}

OpCase patch_case(Shape x, Shape weight) {
  return {.label = fmt::format("{} by {}", x, weight),
          .operands = {randn(x, 1), randn(weight, 2), randn({weight[0]}, 3)},
          .f = [](const std::vector<Var>& v) { return patch_embedding(v[0], v[1], v[2]); }};
}

Var zeros(Tape& t, Shape shape) { return t.constant(Tensor::zeros(std::move(shape), DType::f32)); }

// Kernels that overlap, leave gaps, do not reach the border, or see padding only.
const RegisterOp kUnfold({
    .name = "unfold",
    .cases = {unfold_case({2, 2, 3, 4}, 2, 3), unfold_case({1, 2, 4, 4}, 2, 2, {.stride = 2}),
              unfold_case({1, 1, 5, 4}, 2, 1, {.stride = 3}), unfold_case({1, 2, 3, 3}, 3, 3, {.padding = 1}),
              unfold_case({1, 1, 2, 3}, 2, 2, {.stride = 2, .padding = 3}), unfold_case({0, 1, 2, 2}, 1, 1),
              unfold_case({2, 3, 17, 15}, 3, 3, {.stride = 2, .padding = 1}, true)},
    .errors = {{"unfold: the kernel must lie within the image 3 x 4 with padding 1 on each side, got 6 x 2",
                [](Tape& t) {
                  unfold(zeros(t, {1, 1, 3, 4}), 6, 2, {.padding = 1});
                }},
               {"unfold: stride must be positive and padding not negative, got stride 0, padding -1",
                [](Tape& t) {
                  unfold(zeros(t, {1, 1, 3, 4}), 2, 2, {.stride = 0, .padding = -1});
                }},
               {"unfold: x must be [B, C, H, W], got [1, 1, 3, 4, 5]",
                [](Tape& t) {
                  unfold(zeros(t, {1, 1, 3, 4, 5}), 2, 2);
                }}},
});

const RegisterOp kConv2d({
    .name = "conv2d",
    .cases = {conv2d_case({2, 2, 3, 3}, {2, 2, 2, 2}), conv2d_case({1, 2, 4, 3}, {3, 2, 3, 1}, {.padding = 1}, false),
              conv2d_case({1, 1, 5, 5}, {2, 1, 3, 3}, {.stride = 2, .padding = 1}),
              conv2d_case({2, 3, 9, 8}, {17, 3, 3, 3}, {.padding = 1}, true, true)},
    .errors = {{"conv2d: weight must be f32 [5, 3, 2, 2] on cpu, to go with x, which is f32 [1, 3, 4, 4] on cpu, got "
                "f32 [5, 2, 2, 2] on cpu",
                [](Tape& t) {
                  conv2d(zeros(t, {1, 3, 4, 4}), zeros(t, {5, 2, 2, 2}));
                }},
               {"conv2d: bias must be f32 [5] on cpu, to go with x, which is f32 [1, 3, 4, 4] on cpu, got f32 [4] on "
                "cpu",
                [](Tape& t) {
                  conv2d(zeros(t, {1, 3, 4, 4}), zeros(t, {5, 3, 2, 2}), zeros(t, {4}));
                }},
               {"conv2d: the kernel must lie within the image 4 x 4 with padding 0 on each side, got 5 x 2",
                [](Tape& t) {
                  conv2d(zeros(t, {1, 3, 4, 4}), zeros(t, {5, 3, 5, 2}));
                }}},
    // dweight sums up to 144 products.
    .f32_roundoffs = 400,
    // The gradient passes between the two operations as bf16: nine rounded numbers make one of dx.
    .bf16_roundoffs = 32,
});

const RegisterOp kPatchEmbedding({
    .name = "patch_embedding",
    .cases = {patch_case({2, 2, 4, 2}, {3, 2, 2, 2}), patch_case({1, 1, 2, 3}, {2, 1, 1, 1})},
    .errors = {{"patch_embedding: weight must be [O, C, P, P] with a P that divides the image 4 x 6, got [5, 3, 4, 4]",
                [](Tape& t) {
                  patch_embedding(zeros(t, {1, 3, 4, 6}), zeros(t, {5, 3, 4, 4}), zeros(t, {5}));
                }},
               {"patch_embedding: weight must be [O, C, P, P] with a P that divides the image 4 x 6, got [5, 3, 2, 1]",
                [](Tape& t) {
                  patch_embedding(zeros(t, {1, 3, 4, 6}), zeros(t, {5, 3, 2, 1}), zeros(t, {5}));
                }},
               {"patch_embedding: weight must be f32 [5, 3, 2, 2] on cpu, to go with x, which is f32 [1, 3, 4, 6] on "
                "cpu, got f32 [5, 1, 2, 2] on cpu",
                [](Tape& t) {
                  patch_embedding(zeros(t, {1, 3, 4, 6}), zeros(t, {5, 1, 2, 2}), zeros(t, {5}));
                }}},
});

// A row of three, kernel of two, padding of one above and below too: places between 0 1 2 3 0.
TEST(Conv2d, CONV_1_CONV_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 1, 1, 3}, {1, 2, 3}, device));
    const Var u = unfold(x, 3, 2, {.padding = 1});
    EXPECT_EQ(u.shape(), (Shape{1, 4, 6}));
    EXPECT_EQ(u.value().values<double>(), (std::vector<double>{0, 0, 0, 1, 0, 0,  //
                                                               0, 0, 1, 2, 0, 0,  //
                                                               0, 0, 2, 3, 0, 0,  //
                                                               0, 0, 3, 0, 0, 0}));
    tape.backward(u, Tensor::of<double>({1, 4, 6}, {9, 9, 9, 1, 9, 9,  //
                                                    9, 9, 2, 3, 9, 9,  //
                                                    9, 9, 4, 5, 9, 9,  //
                                                    9, 9, 6, 9, 9, 9},
                                        device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{3, 7, 11}));
  }
}

// The second channel of the output adds up the patch; the first takes the difference along the row.
TEST(Conv2d, CONV_2_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.constant(Tensor::of<double>({1, 1, 2, 3}, {1, 2, 4, 8, 16, 32}, device));
    const Var weight = tape.constant(Tensor::of<double>({2, 1, 1, 2}, {-1, 1, 1, 1}, device));
    const Var bias = tape.constant(Tensor::of<double>({2}, {0, 100}, device));
    const Var y = conv2d(x, weight, bias);
    EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 2}));
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{1, 2, 8, 16, 103, 106, 124, 148}));
  }
}

// Against the definition, with sums over all kernel entries that hit the image.
RC_GTEST_PROP(Conv2d, CONV_2_EqualsTheDefinition, ()) {
  const int C = *rc::gen::inRange(1, 4), H = *rc::gen::inRange(1, 7), W = *rc::gen::inRange(1, 7),
            O = *rc::gen::inRange(1, 4), stride = *rc::gen::inRange(1, 4), padding = *rc::gen::inRange(0, 3),
            Kh = *rc::gen::inRange(1, H + 1), Kw = *rc::gen::inRange(1, W + 1);
  const Tensor x = randn({1, C, H, W}, 1), weight = randn({O, C, Kh, Kw}, 2), bias = randn({O}, 3);
  for (Device device : devices()) {
    Tape tape;
    const Tensor y = conv2d(tape.constant(x.to(device)), tape.constant(weight.to(device)),
                            tape.constant(bias.to(device)), {.stride = stride, .padding = padding})
                         .value();
    const std::int64_t Ho = y.shape()[2], Wo = y.shape()[3];
    Tensor want = Tensor::zeros(y.shape(), DType::f64);
    for (std::int64_t e = 0; e < want.size(); ++e) {
      const std::int64_t o = e / Wo / Ho, top = e / Wo % Ho * stride - padding, left = e % Wo * stride - padding;
      double& sum = want.data<double>()[e] = bias.data<double>()[o];
      for (std::int64_t k = 0; k < C * Kh * Kw; ++k) {
        const std::int64_t c = k / Kw / Kh, h = top + k / Kw % Kh, g = left + k % Kw;
        if (h >= 0 && h < H && g >= 0 && g < W)
          sum += weight.data<double>()[o * C * Kh * Kw + k] * x.data<double>()[(c * H + h) * W + g];
      }
    }
    RC_ASSERT(bool(close(y, want, 1e-13)));
  }
}

// A patch embedding is the convolution whose stride is the patch, its places as tokens.
TEST(Conv2d, CONV_2_PatchesAreAConvolution) {
  Tape tape;
  const Var x = tape.constant(randn({2, 3, 4, 6}, 1)), weight = tape.constant(randn({5, 3, 2, 2}, 2)),
            bias = tape.constant(randn({5}, 3));
  const Tensor tokens = patch_embedding(x, weight, bias).value(),
               image = conv2d(x, weight, bias, {.stride = 2}).value();
  ASSERT_EQ(tokens.shape(), (Shape{2, 6, 5}));
  for (int b = 0; b < 2; ++b)
    for (int l = 0; l < 6; ++l)
      for (int o = 0; o < 5; ++o)
        EXPECT_EQ(tokens.data<double>()[(b * 6 + l) * 5 + o], image.data<double>()[(b * 5 + o) * 6 + l]);
}

}  // namespace
}  // namespace foldgrad::testing
