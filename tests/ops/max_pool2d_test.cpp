#include "ops/max_pool2d/max_pool2d.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

OpFunction pool_of(MaxPool2dOptions o) {
  return [o](auto& v) { return max_pool2d(v[0], o); };
}
OpCase pool_case(const Shape& x, MaxPool2dOptions o = {}) {
  return random_case({x}, fmt::format("{}, kernel {}, stride {}, padding {}", x, o.kernel, o.stride, o.padding),
                     pool_of(o));
}
OpError pool_error(const char* message, const Shape& x, MaxPool2dOptions o = {}) {
  return error_of_zeros(message, {x}, pool_of(o));
}

// In some cases, windows overlap, leave gaps between them, or do not reach the border. The number of channels is below
// the lanes of a vector, 64 (one chunk), or 129 (two chunks and one channel).
const RegisterOp kMaxPool2d({
    .name = "max_pool2d",
    .cases = {pool_case({2, 4, 5, 3}, {.kernel = 3, .stride = 2, .padding = 1}), pool_case({1, 4, 6, 2}),
              pool_case({1, 5, 4, 2}, {.kernel = 3, .stride = 1}), pool_case({1, 5, 7, 1}, {.kernel = 1, .stride = 3}),
              pool_case({1, 2, 1, 1}, {.kernel = 4, .stride = 1, .padding = 2}), pool_case({0, 2, 2, 3}),
              pool_case({2, 3, 2, 129}, {.kernel = 2, .stride = 1, .padding = 1}),
              pool_case({2, 17, 15, 64}, {.kernel = 3, .stride = 2, .padding = 1}),
              pool_case({1, 16, 17, 3}, {.kernel = 15, .stride = 1, .padding = 7})},
    .errors = {pool_error("max_pool2d: x must be f32, f64 or bf16 of rank 4 or more, got f32 [3, 4, 2] on cpu",
                          {3, 4, 2}),
               pool_error("max_pool2d: x must be [B, H, W, C], got [1, 1, 3, 4, 5]", {1, 1, 3, 4, 5}),
               pool_error("max_pool2d: x must have at least one pixel, got [1, 0, 3, 4]", {1, 0, 3, 4}, {.padding = 1}),
               pool_error("max_pool2d: an image of x must have at most 536870912 pixels, got [1, 32768, 16385, 0]",
                          {1, 32768, 16385, 0}),
               pool_error("max_pool2d: kernel must be in [1, 15], got 16", {1, 20, 20, 1}, {.kernel = 16}),
               pool_error("max_pool2d: kernel must be in [1, 15], got 0", {1, 20, 20, 1}, {.kernel = 0}),
               pool_error("max_pool2d: stride must be positive, got 0", {1, 4, 4, 1}, {.stride = 0}),
               pool_error("max_pool2d: padding must be in [0, 1], half the kernel size, got 2", {1, 4, 4, 1},
                          {.kernel = 3, .padding = 2}),
               pool_error("max_pool2d: padding must be in [0, 1], half the kernel size, got -1", {1, 4, 4, 1},
                          {.padding = -1}),
               pool_error("max_pool2d: the kernel must lie within the image 3 x 1 with padding 1 on each side, got "
                          "4 x 4",
                          {2, 3, 1, 1}, {.kernel = 4, .padding = 1})},
});

// There are two channels. The first has its maximum, 5, twice. The second has only negative values, so zeros from the
// padding would win.
TEST(MaxPool2d, POOL_1_POOL_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 3, 3, 2}, {1, -1, 5, -2, 2, -3,  //
                                                      5, -4, 3, -5, 0, -6,  //
                                                      -1, -7, -2, -8, -3, -9})},
                  .y = {5, -1, 5, -2, 5, -4, 3, -5},
                  .dy = {1, 16, 2, 32, 4, 64, 8, 128},
                  .gradients = {{0, 16, 3, 32, 0, 0,   //
                                 4, 64, 8, 128, 0, 0,  //
                                 0, 0, 0, 0, 0, 0}},
                  .shape = Shape{1, 2, 2, 2}},
                 pool_of({.kernel = 3, .stride = 2, .padding = 1}));
}

const OpFunction kThree = pool_of({.kernel = 3, .stride = 1, .padding = 1});

// Pools an image of one row and `channels` equal channels with kThree: each window is a pixel and its two neighbours.
// dy is 1, 2, 4, ... along the row. Returns y and dx of the last channel.
std::vector<std::vector<double>> of_row(const std::vector<double>& row, DType dtype, Device device, int channels) {
  const std::int64_t n = std::int64_t(row.size());
  std::vector<double> values, powers;
  for (int i = 0; i < n; ++i) {
    values.insert(values.end(), channels, row[i]);
    powers.insert(powers.end(), channels, std::ldexp(1, i));
  }
  const Shape shape{1, 1, n, channels};
  const OpResult results = results_of(kThree, {numbers(shape, values)}, numbers(shape, powers), dtype, device);
  std::vector<std::vector<double>> last;
  for (const Tensor& all : {results.y, results.grads[0]}) {
    last.emplace_back();
    for (int i = 1; i <= n; ++i) last.back().push_back(all.to(DType::f64).values<double>()[i * channels - 1]);
  }
  return last;
}

// Tests one channel, and a chunk of 64 channels, which the CPU compares in vectors.
TEST(MaxPool2d, POOL_1_TheFirstNaNWinsAndMinusInfinityIsAValue) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (int channels : {1, 64}) {
        const auto nans = of_row({INFINITY, NAN, NAN, 2}, dtype, device, channels);
        for (double y : nans[0]) EXPECT_TRUE(std::isnan(y));
        EXPECT_EQ(nans[1], (std::vector<double>{0, 7, 8, 0}));
        const auto infinite = of_row({-INFINITY, -INFINITY, -INFINITY, 2}, dtype, device, channels);
        EXPECT_EQ(infinite[0], (std::vector<double>{-INFINITY, -INFINITY, 2, 2}));
        EXPECT_EQ(infinite[1], (std::vector<double>{3, 0, 0, 12}));
      }
}

// All three windows choose the 9, so its dx is 1e8 - 1e8 + 1. In f32, 1e8 + 1 = 1e8, so dx is 0 unless the 1 of the
// last window is added last.
TEST(MaxPool2d, POOL_2_SumsInTheOrderOfPlaces) {
  const Tensor x = numbers({1, 1, 3, 1}, {0, 9, 0}), dy = numbers({1, 1, 3, 1}, {1e8, -1e8, 1});
  for (Device device : devices())
    EXPECT_EQ(results_of(kThree, {x}, dy, DType::f32, device).grads[0].values<float>(), (std::vector<float>{0, 1, 0}));
}

// Compares with the definition: each window takes its first maximum, and adds its dy to that pixel. x has only four
// different values, so many windows have several maxima.
RC_GTEST_PROP(MaxPool2d, POOL_1_POOL_2_EqualTheDefinition, ()) {
  const int H = *rc::gen::inRange(1, 8), W = *rc::gen::inRange(1, 8), C = *rc::gen::element(1, 2, 3, 9, 37, 64),
            K = *rc::gen::inRange(1, std::min({H, W, 4}) + 1), stride = *rc::gen::inRange(1, 4),
            padding = *rc::gen::inRange(0, K / 2 + 1);
  const Tensor x = random_ids({2, H, W, C}, 4, *rc::gen::inRange(0u, 1000u)).to(DType::f64);
  for (Device device : devices()) {
    Tape tape;
    const Var xv = tape.variable(x.to(device));
    const Var y = max_pool2d(xv, {.kernel = K, .stride = stride, .padding = padding});
    const std::int64_t Ho = y.shape()[1], Wo = y.shape()[2];
    const Tensor dy = random_ids(y.shape(), 9, 3).to(DType::f64);
    Tensor want = Tensor::zeros(y.shape(), DType::f64), dx = Tensor::zeros(x.shape(), DType::f64);
    for (std::int64_t e = 0; e < want.size(); ++e) {
      const std::int64_t c = e % C, top = e / C / Wo % Ho * stride - padding, left = e / C % Wo * stride - padding,
                         b = e / C / Wo / Ho;
      std::int64_t at = -1;
      for (std::int64_t k = 0; k < K * K; ++k) {
        const std::int64_t h = top + k / K, g = left + k % K, i = ((b * H + h) * W + g) * C + c;
        if (h < 0 || h >= H || g < 0 || g >= W) continue;
        if (at < 0 || x.data<double>()[i] > x.data<double>()[at]) at = i;
      }
      want.data<double>()[e] = x.data<double>()[at];
      dx.data<double>()[at] += dy.data<double>()[e];
    }
    tape.backward(y, dy.to(device));
    RC_ASSERT(bool(identical(y.value().to(Device::cpu), want)));
    RC_ASSERT(bool(identical(tape.grad(xv).to(Device::cpu), dx)));
  }
}

}  // namespace
}  // namespace foldgrad::testing
