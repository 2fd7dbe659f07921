#include "ops/matmul/matmul.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

OpCase matmul_case(Shape a, Shape b, bool transpose_a = false, bool transpose_b = false, bool large = false) {
  return {.label = fmt::format("{}{} times {}{}", a, transpose_a ? "^T" : "", b, transpose_b ? "^T" : ""),
          .operands = {randn(a, 1), randn(b, 2)},
          .f = [=](const std::vector<Var>& v) { return matmul(v[0], v[1], transpose_a, transpose_b); },
          .large = large};
}

OpError matmul_error(const char* message, Shape a, Shape b, bool transpose_a = false) {
  return {message, [=](Tape& t) {
            matmul(t.constant(Tensor::zeros(a, DType::f32)), t.constant(Tensor::zeros(b, DType::f32)), transpose_a);
          }};
}

const RegisterOp kMatmul({
    .name = "matmul",
    .cases = {matmul_case({3, 2}, {2, 4}), matmul_case({2, 3}, {2, 4}, true), matmul_case({3, 2}, {4, 2}, false, true),
              matmul_case({2, 3}, {4, 2}, true, true), matmul_case({3, 3}, {3, 3}, true),
              matmul_case({2, 2, 3, 2}, {2, 2, 2, 3}), matmul_case({2, 2, 3}, {2, 2, 4}, true),
              matmul_case({2, 3, 2}, {2, 4, 2}, false, true), matmul_case({2, 2, 3}, {2, 4, 2}, true, true),
              matmul_case({2, 2, 3, 2}, {2, 3}), matmul_case({2, 3, 2}, {4, 2}, false, true),
              matmul_case({0, 3, 2}, {0, 2, 3}), matmul_case({2, 3, 0}, {2, 0, 3}),
              matmul_case({3, 33, 17}, {3, 17, 35}, false, false, true)},
    .errors = {matmul_error("matmul: b must be f32 [3, 4] on cpu, to go with a, which is f32 [2, 3] on cpu, got f32 "
                            "[2, 4] on cpu",
                            {2, 3}, {2, 4}),
               matmul_error("matmul: b must be f32 [2, 3, 4] on cpu, to go with a, which is f32 [2, 2, 3] on cpu, got "
                            "f32 [3, 3, 4] on cpu",
                            {2, 2, 3}, {3, 3, 4}),
               matmul_error("matmul: b must be f32 [3, 4] on cpu, to go with a, which is f32 [2, 3] on cpu, got f32 "
                            "[2, 3, 4] on cpu",
                            {2, 3}, {2, 3, 4}),
               matmul_error("matmul: a must not be transposed where b is a single matrix, got a [2, 2, 3], b [2, 4]",
                            {2, 2, 3}, {2, 4}, true),
               matmul_error("matmul: a must be f32, f64 or bf16 with at least 2 axes, got f32 [2] on cpu", {2},
                            {2, 4})},
});

TEST(Matmul, MM_1_MM_2_MM_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var a = tape.variable(Tensor::of<double>({2, 2}, {1, 2, 3, 4}, device));
    const Var b = tape.variable(Tensor::of<double>({2, 2}, {0, 1, -1, 2}, device));
    const Var c = matmul(a, b);
    EXPECT_EQ(c.value().values<double>(), (std::vector<double>{-2, 5, -4, 11}));
    tape.backward(c, Tensor::of<double>({2, 2}, {1, 0, 0, 2}, device));
    EXPECT_EQ(tape.grad(a).values<double>(), (std::vector<double>{0, -1, 2, 4}));
    EXPECT_EQ(tape.grad(b).values<double>(), (std::vector<double>{1, 6, 2, 8}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
