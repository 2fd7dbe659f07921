#include "ops/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

OpCase scalar_case(Var (*f)(const Var&), Shape shape, bool large = false) {
  return {.label = shape.str(),
          .operands = {randn(shape, 1)},
          .f = [f](const std::vector<Var>& v) { return f(v[0]); },
          .large = large};
}

// 5000 elements are two parts.
const RegisterOp kSum({
    .name = "sum",
    .cases = {scalar_case(sum, {3, 4}), scalar_case(sum, {}), scalar_case(sum, {257}, true),
              scalar_case(sum, {5000}, true)},
    .errors = {{"sum: x must be f32, f64 or bf16, got i64 [2] on cpu",
                [](Tape& t) { sum(t.constant(Tensor::zeros({2}, DType::i64))); }}},
    .f32_roundoffs = 400,
});
const RegisterOp kMean({
    .name = "mean",
    .cases = {scalar_case(mean, {3, 4}), scalar_case(mean, {}), scalar_case(mean, {5000}, true)},
    .errors = {{"mean: x must have elements, got [2, 0]",
                [](Tape& t) {
                  mean(t.constant(Tensor::zeros({2, 0}, DType::f32)));
                }}},
});

OpCase pool_case(Shape shape, bool large = false) {
  return {.label = shape.str() + " whole",
          .operands = {randn(shape, 1)},
          .f = [](const std::vector<Var>& v) { return mean_pool(v[0]); },
          .large = large};
}
OpError pool_error(const char* message, Shape x) {
  return {message, [=](Tape& t) { mean_pool(t.constant(Tensor::zeros(x, DType::f32))); }};
}
// Columns around one chunk of 64 and around one block of 256 threads.
const RegisterOp kMeanPool({
    .name = "mean_pool",
    .cases = {pool_case({3, 4, 5}), pool_case({2, 1, 1}), pool_case({3, 5, 65}, true), pool_case({2, 3, 300}, true),
              pool_case({2, 3, 4}), pool_case({1, 4, 64}, true)},
    .errors = {pool_error("mean_pool: x must have 3 axes, got [1, 2, 3, 4]", {1, 2, 3, 4}),
               pool_error("mean_pool: x must be f32, f64 or bf16 with at least 3 axes, got f32 [2, 3] on cpu", {2, 3})},
});

TEST(Reduce, RED_1_RED_2_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2}, {1, 2, 4, 9}, device));
    EXPECT_EQ(sum(x).value().item(), 16);
    EXPECT_EQ(mean(x).value().item(), 4);
    EXPECT_EQ(sum(tape.constant(Tensor::zeros({0, 3}, DType::f64, device))).value().item(), 0);
    tape.backward(mean(x), Tensor::of<double>({}, {8}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{2, 2, 2, 2}));
  }
}

TEST(Reduce, RED_3_RED_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2, 1}, {1, 5, 7, 8}, device));
    const Var y = mean_pool(x);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{3, 7.5}));
    EXPECT_EQ(mean_pool(tape.constant(Tensor::zeros({1, 0, 1}, DType::f64, device))).value().item(), 0);
    tape.backward(y, Tensor::of<double>({2, 1}, {8, 6}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{4, 4, 3, 3}));
  }
}

// The scalar of bf16 elements is f32: rounded to bf16, a sum of 257 ones would be 256.
TEST(Reduce, RED_1_ScalarsOfBf16AreF32) {
  for (Device device : devices()) {
    Tape tape;
    const Tensor y = sum(tape.constant(Tensor::full({257}, 1, DType::bf16, device))).value();
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.item(), 257);
  }
}

// Each element is counted once, whatever the number of parts and what is left over in each.
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
