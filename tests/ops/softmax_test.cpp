#include "ops/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

OpCase softmax_case(Shape shape, bool large = false) {
  return {.label = shape.str(),
          .operands = {randn(shape, 1, 2)},
          .f = [](const std::vector<Var>& v) { return softmax(v[0]); },
          .large = large};
}

// Columns around one warp and around one block of 256 threads.
const RegisterOp kSoftmax({
    .name = "softmax",
    .cases = {softmax_case({3, 2, 4}), softmax_case({5}), softmax_case({3, 1}), softmax_case({2, 31}),
              softmax_case({2, 32}), softmax_case({2, 33}), softmax_case({1, 255}, true), softmax_case({1, 257}, true),
              softmax_case({70, 300}, true),
              // Where one form of the CUDA kernels ends: packs in a warp, in a block, none.
              softmax_case({5, 136}, true), softmax_case({2, 1032}, true), softmax_case({1, 2051}, true),
              softmax_case({1, 4104}, true), softmax_case({1, 16392}, true)},
    .errors = {{"softmax: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) { softmax(t.constant(Tensor::zeros({}, DType::f32))); }}},
    .bf16_roundoffs = 16,
});

Tensor softmax_of(const Tensor& x, Device device) {
  Tape tape;
  return softmax(tape.constant(x.to(device))).value();
}
// exp(0), exp(ln 2), exp(ln 5), over their sum of 8.
TEST(Softmax, SM_1_SM_2_WorkedByHand) {
  const Tensor x = Tensor::of<double>({3}, {0, std::log(2), std::log(5)});
  const Tensor want = Tensor::of<double>({3}, {1 / 8., 2 / 8., 5 / 8.});
  for (Device device : devices()) EXPECT_TRUE(close(softmax_of(x, device), want, 1e-15));
}

// y = (1/2, 1/2), dy = (3, 1): sum dy y = 2, so dx = (1, -1) / 2.
TEST(Softmax, SM_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2}, {7, 7}, device));
    tape.backward(softmax(x), Tensor::of<double>({2}, {3, 1}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0.5, -0.5}));
  }
}

// The maximum is taken off first: exp(1000) alone would be infinite, exp(-1000) / exp(-1000) undefined.
TEST(Softmax, SM_1_LargeEntriesNeitherOverflowNorVanish) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      EXPECT_TRUE(close(softmax_of(Tensor::of<double>({2, 2}, {1000, 1000, -1000, -1000}).to(dtype), device),
                        Tensor::full({2, 2}, 0.5, DType::f64), 0));
      EXPECT_TRUE(close(softmax_of(Tensor::of<double>({3}, {-kInfinity, 3e30, -3e30}).to(dtype), device),
                        Tensor::of<double>({3}, {0, 1, 0}), 0));
    }
}

TEST(Softmax, SM_2_RowsOfMinusInfinityGiveZerosAndNaNIsSeen) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      EXPECT_TRUE(close(softmax_of(Tensor::full({2}, -kInfinity, DType::f64).to(dtype), device),
                        Tensor::zeros({2}, DType::f64), 0));
      const Tensor y = softmax_of(Tensor::of<double>({3}, {1, kNaN, 2}).to(dtype), device).to(DType::f64);
      for (double v : y.values<double>()) EXPECT_TRUE(std::isnan(v));
    }
}

// Entries of -infinity leave to the others what a softmax of them alone gives; results sum to 1, dx to 0.
RC_GTEST_PROP(Softmax, SM_2_SM_3_EntriesOfMinusInfinityHaveNoShare, ()) {
  const auto C = *rc::gen::inRange<std::int64_t>(1, 150);
  const auto finite = *rc::gen::container<std::vector<bool>>(std::size_t(C), rc::gen::arbitrary<bool>());
  const Tensor x = randn({C}, *rc::gen::inRange(0u, 1000u), 3);
  std::vector<double> few;
  for (std::int64_t c = 0; c < C; ++c) {
    if (finite[c])
      few.push_back(x.data<double>()[c]);
    else
      x.data<double>()[c] = -kInfinity;
  }
  if (few.empty()) return;
  Tape tape;
  const Var xv = tape.variable(x);
  const Var y = softmax(xv);
  const Tensor alone = softmax_of(Tensor::of({std::int64_t(few.size())}, few), Device::cpu);
  std::vector<double> got;
  for (std::int64_t c = 0; c < C; ++c) {
    if (finite[c])
      got.push_back(y.value().data<double>()[c]);
    else
      RC_ASSERT(y.value().data<double>()[c] == 0);
  }
  RC_ASSERT(close(Tensor::of({std::int64_t(got.size())}, got), alone, 1e-14));
  tape.backward(y, randn({C}, 3));
  double sum = 0;
  for (double v : tape.grad(xv).values<double>()) sum += v;
  RC_ASSERT(std::abs(sum) <= 1e-13);
}

}  // namespace
}  // namespace foldgrad::testing
