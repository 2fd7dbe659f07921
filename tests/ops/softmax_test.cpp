#include "ops/softmax/softmax.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/generators.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

OpCase softmax_case(const Shape& shape) {
  return {.operands = {randn(shape, 1, 2)}, .f = [](auto& v) { return softmax(v[0]); }};
}

const RegisterOp kSoftmax({
    .name = "softmax",
    .cases = row_cases(
        [](auto rows, auto columns) {
          return softmax_case({rows, columns});
        },
        {softmax_case({3, 2, 4}), softmax_case({5}), softmax_case({3, 1})}),
    .errors = {{"softmax: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { softmax(zeros(t)); }}},
    .bf16_roundoffs = 16,
});

Tensor softmax_of(const Tensor& x, Device device) {
  Tape tape;
  return softmax(tape.constant(x.to(device))).value();
}
// The results are exp(0) = 1, exp(ln 2) = 2 and exp(ln 5) = 5, divided by their sum, 8.
TEST(Softmax, SM_1_SM_2_WorkedByHand) {
  const Tensor x = Tensor::of<double>({3}, {0, std::log(2), std::log(5)});
  const Tensor want = Tensor::of<double>({3}, {1 / 8., 2 / 8., 5 / 8.});
  for (Device device : devices()) EXPECT_TRUE(close(softmax_of(x, device), want, 1e-15));
}

// y = (1/2, 1/2) and dy = (3, 1), so the sum of dy y is 2 and dx = (1, -1) / 2.
TEST(Softmax, SM_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2}, {7, 7})}, .y = {0.5, 0.5}, .dy = {3, 1}, .gradients = {{0.5, -0.5}}},
                 [](auto& v) { return softmax(v[0]); });
}

// softmax() first subtracts the maximum of the row. Otherwise exp(1000) would overflow, and exp(-1000) / exp(-1000)
// would be 0 / 0.
TEST(Softmax, SM_1_LargeEntriesNeitherOverflowNorVanish) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      EXPECT_TRUE(close(softmax_of(Tensor::of<double>({2, 2}, {1000, 1000, -1000, -1000}).to(dtype), device),
                        Tensor::full({2, 2}, 0.5, DType::f64), 0));
      EXPECT_TRUE(close(softmax_of(Tensor::of<double>({3}, {-INFINITY, 3e30, -3e30}).to(dtype), device),
                        Tensor::of<double>({3}, {0, 1, 0}), 0));
    }
}

TEST(Softmax, SM_2_RowsOfMinusInfinityGiveZerosAndNaNIsSeen) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      EXPECT_TRUE(close(softmax_of(Tensor::full({2}, -INFINITY, DType::f64).to(dtype), device),
                        Tensor::zeros({2}, DType::f64), 0));
      const Tensor y = softmax_of(Tensor::of<double>({3}, {1, NAN, 2}).to(dtype), device).to(DType::f64);
      for (double v : y.values<double>()) EXPECT_TRUE(std::isnan(v));
    }
}

// Entries of -infinity give 0. The other results equal the softmax of the row without these entries. dx sums to 0.
RC_GTEST_PROP(Softmax, SM_2_SM_3_EntriesOfMinusInfinityHaveNoShare, ()) {
  const auto C = *rc::gen::inRange<std::int64_t>(1, 150);
  const auto finite = *rc::gen::container<std::vector<bool>>(std::size_t(C), rc::gen::arbitrary<bool>());
  const Tensor x = *any_tensor({C}, 3);
  std::vector<double> few;
  for (std::int64_t c = 0; c < C; ++c) {
    if (finite[c])
      few.push_back(x.data<double>()[c]);
    else
      x.data<double>()[c] = -INFINITY;
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
