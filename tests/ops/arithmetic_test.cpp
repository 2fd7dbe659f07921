#include "ops/arithmetic/arithmetic.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

using Binary = Var (*)(const Var&, const Var&);

OpCase binary_case(Binary op, Shape shape, bool large = false) {
  return {.label = fmt::format("{}", shape),
          .operands = {randn(shape, 1), randn(shape, 2)},
          .f = [op](const std::vector<Var>& v) { return op(v[0], v[1]); },
          .large = large};
}

OpSpec binary_spec(const char* name, Binary op) {
  return {
      .name = name,
      // Around a block of 256 threads.
      .cases = {binary_case(op, {2, 3}), binary_case(op, {}), binary_case(op, {33}), binary_case(op, {255}, true),
                binary_case(op, {3, 257}, true)},
      .errors = {{fmt::format("{}: b must be f32 [3] on cpu, to go with a, which is f32 [3] on cpu, got f32 [1] on cpu",
                              name),
                  [op](Tape& t) {
                    op(t.constant(Tensor::zeros({3}, DType::f32)), t.constant(Tensor::zeros({1}, DType::f32)));
                  }},
                 {fmt::format("{}: a must be f32, f64 or bf16, got i64 [3] on cpu", name),
                  [op](Tape& t) {
                    const Var ids = t.constant(Tensor::zeros({3}, DType::i64));
                    op(ids, ids);
                  }}},
      .f32_roundoffs = 4,
      .bf16_roundoffs = 4};
}
const RegisterOp kAdd(binary_spec("add", add));
const RegisterOp kSub(binary_spec("sub", sub));
const RegisterOp kMul(binary_spec("mul", mul));

OpCase scale_case(Shape shape, double s, bool large = false) {
  return {.label = fmt::format("{} times {}", shape, s),
          .operands = {randn(shape, 1)},
          .f = [s](const std::vector<Var>& v) { return scale(v[0], s); },
          .large = large};
}
const RegisterOp kScale({.name = "scale",
                         .cases = {scale_case({2, 3}, -0.75), scale_case({}, 0), scale_case({3, 257}, 3, true)},
                         .errors = {{"scale: a must be f32, f64 or bf16, got i64 [3] on cpu",
                                     [](Tape& t) { scale(t.constant(Tensor::zeros({3}, DType::i64)), 2); }}},
                         .f32_roundoffs = 4,
                         .bf16_roundoffs = 4});

OpCase add_bias_case(Shape shape, bool large = false) {
  return {.label = fmt::format("{}", shape),
          .operands = {randn(shape, 1), randn({shape[-1]}, 2)},
          .f = [](const std::vector<Var>& v) { return add_bias(v[0], v[1]); },
          .large = large};
}
// Columns around a warp, for the sums; rows of more and of less than a block of the CPU's loop (4096 elements).
const RegisterOp kAddBias({
    .name = "add_bias",
    .cases = {add_bias_case({3, 2}), add_bias_case({5}), add_bias_case({2, 2, 3}), add_bias_case({40, 3}),
              add_bias_case({3, 31}), add_bias_case({3, 33}), add_bias_case({70, 300}, true)},
    .errors = {{"add_bias: bias must be f32 [8] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [4] on cpu",
                [](Tape& t) {
                  add_bias(t.constant(Tensor::zeros({2, 8}, DType::f32)), t.constant(Tensor::zeros({4}, DType::f32)));
                }},
               {"add_bias: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) {
                  const Var s = t.constant(Tensor::zeros({}, DType::f32));
                  add_bias(s, s);
                }}},
    .f32_roundoffs = 100,  // sums of 70 rows
});

struct Result {
  std::vector<double> y, da, db;
};
Result run(Binary op, Device device) {
  Tape tape;
  const Var a = tape.variable(Tensor::of<double>({2}, {2, -3}, device));
  const Var b = tape.variable(Tensor::of<double>({2}, {5, 7}, device));
  const Var y = op(a, b);
  tape.backward(y, Tensor::of<double>({2}, {10, 100}, device));
  return {y.value().values<double>(), tape.grad(a).values<double>(), tape.grad(b).values<double>()};
}
using Values = std::vector<double>;

TEST(Arithmetic, AR_1_WorkedByHand) {
  for (Device device : devices()) {
    const Result r = run(add, device);
    EXPECT_EQ(r.y, (Values{7, 4}));
    EXPECT_EQ(r.da, (Values{10, 100}));
    EXPECT_EQ(r.db, (Values{10, 100}));
  }
}

TEST(Arithmetic, AR_2_WorkedByHand) {
  for (Device device : devices()) {
    const Result r = run(sub, device);
    EXPECT_EQ(r.y, (Values{-3, -10}));
    EXPECT_EQ(r.da, (Values{10, 100}));
    EXPECT_EQ(r.db, (Values{-10, -100}));
  }
}

TEST(Arithmetic, AR_3_WorkedByHand) {
  for (Device device : devices()) {
    const Result r = run(mul, device);
    EXPECT_EQ(r.y, (Values{10, -21}));
    EXPECT_EQ(r.da, (Values{50, 700}));
    EXPECT_EQ(r.db, (Values{20, -300}));
  }
}

TEST(Arithmetic, AR_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var a = tape.variable(Tensor::of<double>({2}, {2, -3}, device));
    const Var y = scale(a, -0.5);
    tape.backward(y, Tensor::of<double>({2}, {10, 100}, device));
    EXPECT_EQ(y.value().values<double>(), (Values{-1, 1.5}));
    EXPECT_EQ(tape.grad(a).values<double>(), (Values{-5, -50}));
  }
}

TEST(Arithmetic, AR_5_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2}, {1, 2, 3, 4}, device));
    const Var bias = tape.variable(Tensor::of<double>({2}, {10, 20}, device));
    const Var y = add_bias(x, bias);
    tape.backward(y, Tensor::of<double>({2, 2}, {1, 10, 100, 1000}, device));
    EXPECT_EQ(y.value().values<double>(), (Values{11, 22, 13, 24}));
    EXPECT_EQ(tape.grad(x).values<double>(), (Values{1, 10, 100, 1000}));
    EXPECT_EQ(tape.grad(bias).values<double>(), (Values{101, 1010}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
