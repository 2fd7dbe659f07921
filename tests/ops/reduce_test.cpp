#include "ops/reduce/reduce.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpFunction of_one(Var (*f)(const Var&)) {
  return [f](auto& v) { return f(v[0]); };
}

// The sum of 5,000 elements has two parts, since a part has at most 4,096 elements.
const RegisterOp kSum({
    .name = "sum",
    .cases = {random_case({{3, 4}}, of_one(sum)), random_case({{}}, of_one(sum)), random_case({{257}}, of_one(sum)),
              random_case({{5000}}, of_one(sum))},
    .errors = {error_of_zeros("sum: x must be f32, f64 or bf16, got i64 [2] on cpu", {{2}}, of_one(sum), DType::i64)},
    .f32_roundoffs = 400,
});
const RegisterOp kMean({
    .name = "mean",
    .cases = {random_case({{3, 4}}, of_one(mean)), random_case({{}}, of_one(mean)),
              random_case({{5000}}, of_one(mean))},
    .errors = {error_of_zeros("mean: x must have at least one element, got [2, 0]", {{2, 0}}, of_one(mean))},
});

TEST(Reduce, RED_1_RED_2_WorkedByHand) {
  const Tensor x = numbers({2, 2}, {1, 2, 4, 9});
  expect_by_hand({.operands = {x}, .y = {16}}, of_one(sum));
  expect_by_hand({.operands = {numbers({0, 3}, {})}, .y = {0}}, of_one(sum));
  expect_by_hand({.operands = {x}, .y = {4}, .dy = {8}, .gradients = {{2, 2, 2, 2}}}, of_one(mean));
}

// The sum of bf16 elements is f32. In bf16, the sum of 257 ones would be rounded to 256.
TEST(Reduce, RED_1_ScalarsOfBf16AreF32) {
  for (Device device : devices()) {
    Tape tape;
    const Tensor y = sum(tape.constant(Tensor::full({257}, 1, DType::bf16, device))).value();
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.item(), 257);
  }
}

// An exact sum shows that every element counts once. The sizes give 1 to 64 parts, of equal and of unequal lengths.
TEST(Reduce, RED_1_RED_2_SumsOfWholeNumbersAreExact) {
  for (std::int64_t n : {1, 63, 65, 4095, 4097, 20000, 262145, 300001}) {
    const Tensor ids = random_ids({n}, 10, unsigned(n));
    double want = 0;
    for (std::int64_t id : ids.values<std::int64_t>()) want += double(id);
    Tape tape;
    const Var x = tape.constant(ids.to(DType::f64));
    EXPECT_EQ(sum(x).value().item(), want) << n;
    EXPECT_NEAR(mean(x).value().item(), want / double(n), 1e-14) << n;
  }
}

}  // namespace
}  // namespace foldgrad::testing
