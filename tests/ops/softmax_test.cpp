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

// About a third of the entries are not attended, and of the first row of the mask none is.
OpCase masked_case(Shape shape, Shape mask_shape, bool large = false) {
  const Tensor thirds = random_ids(mask_shape, 3, 5);
  Tensor mask = Tensor::empty(mask_shape, DType::u8);
  for (std::int64_t i = 0; i < mask.size(); ++i)
    mask.data<std::uint8_t>()[i] = i >= mask_shape[-1] && thirds.data<std::int64_t>()[i] != 0;
  return {.label = fmt::format("{} with mask {}", shape, mask_shape),
          .operands = {randn(shape, 1, 2), mask},
          .f = [](const std::vector<Var>& v) { return softmax(v[0], v[1]); },
          .large = large};
}

Var x_and_mask(Tape& t, Shape shape, DType dtype, Shape mask_shape, DType mask_dtype) {
  return softmax(t.constant(Tensor::zeros(shape, dtype)), t.constant(Tensor::zeros(mask_shape, mask_dtype)));
}

// Columns around one warp and around one block of 256 threads.
const RegisterOp kSoftmax({
    .name = "softmax",
    .cases = {masked_case({3, 2, 4}, {3, 4}), masked_case({2, 3, 5}, {2, 3, 5}), masked_case({2, 7}, {7}),
              masked_case({3, 2, 33}, {3, 33}, true), masked_case({3, 300}, {3, 300}, true), softmax_case({5}),
              softmax_case({3, 1}), softmax_case({2, 31}), softmax_case({2, 32}), softmax_case({2, 33}),
              softmax_case({1, 255}, true), softmax_case({1, 257}, true), softmax_case({70, 300}, true),
              // Where one form of the CUDA kernels ends: packs in a warp, in a block, none.
              masked_case({5, 136}, {5, 136}, true), masked_case({2, 1032}, {2, 1032}, true),
              softmax_case({1, 2051}, true), masked_case({1, 4104}, {1, 4104}, true), softmax_case({1, 16392}, true)},
    .errors = {{"softmax: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) { softmax(t.constant(Tensor::zeros({}, DType::f32))); }},
               {"softmax: mask must be u8 on cpu, its last axis that of x and its others the first of x, which is f32 "
                "[2, 3, 8] on cpu, got u8 [3, 8] on cpu",
                [](Tape& t) {
                  x_and_mask(t, {2, 3, 8}, DType::f32, {3, 8}, DType::u8);
                }},
               {"softmax: mask must be u8 on cpu, its last axis that of x and its others the first of x, which is f32 "
                "[2, 8] on cpu, got u8 [1, 2, 8] on cpu",
                [](Tape& t) {
                  x_and_mask(t, {2, 8}, DType::f32, {1, 2, 8}, DType::u8);
                }},
               {"softmax: mask must be u8 on cpu, its last axis that of x and its others the first of x, which is f32 "
                "[2, 8] on cpu, got i64 [2, 8] on cpu",
                [](Tape& t) {
                  x_and_mask(t, {2, 8}, DType::f32, {2, 8}, DType::i64);
                }}},
    .bf16_roundoffs = 16,
});

Tensor softmax_of(const Tensor& x, Device device) {
  Tape tape;
  return softmax(tape.constant(x.to(device))).value();
}
Tensor softmax_of(const Tensor& x, const Tensor& mask, Device device) {
  Tape tape;
  return softmax(tape.constant(x.to(device)), tape.constant(mask.to(device))).value();
}

// exp(0), exp(ln 2), exp(ln 5), over their sum of 8; attended only the first two, over 3; nothing attended.
TEST(Softmax, SM_1_SM_2_WorkedByHand) {
  const Tensor x = Tensor::of<double>({3, 3}, {0, std::log(2), std::log(5), 0, std::log(2), kNaN, kNaN, 1, 2});
  const Tensor mask = Tensor::of<std::uint8_t>({3, 3}, {1, 1, 1, 1, 1, 0, 0, 0, 0});
  const Tensor want = Tensor::of<double>({3, 3}, {1 / 8., 2 / 8., 5 / 8., 1 / 3., 2 / 3., 0, 0, 0, 0});
  for (Device device : devices()) EXPECT_TRUE(close(softmax_of(x, mask, device), want, 1e-15));
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

// Attended entries get what a softmax of them alone gives; they sum to 1 and to a gradient of 0.
RC_GTEST_PROP(Softmax, SM_2_SM_3_MaskedEqualsSoftmaxOfWhatIsAttended, ()) {
  const auto C = *rc::gen::inRange<std::int64_t>(1, 150);
  const auto attended = *rc::gen::container<std::vector<bool>>(std::size_t(C), rc::gen::arbitrary<bool>());
  const Tensor x = randn({C}, *rc::gen::inRange(0u, 1000u), 3);
  std::vector<double> few;
  std::vector<std::uint8_t> bits;
  for (std::int64_t c = 0; c < C; ++c) {
    bits.push_back(attended[c]);
    if (attended[c]) few.push_back(x.data<double>()[c]);
  }
  if (few.empty()) return;
  Tape tape;
  const Var xv = tape.variable(x);
  const Var y = softmax(xv, tape.constant(Tensor::of({C}, bits)));
  const Tensor alone = softmax_of(Tensor::of({std::int64_t(few.size())}, few), Device::cpu);
  std::vector<double> got;
  for (std::int64_t c = 0; c < C; ++c) {
    if (attended[c])
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
