#include "ops/matmul/matmul.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpFunction matmul_of(bool transpose_a = false, bool transpose_b = false) {
  return [=](auto& v) { return matmul(v[0], v[1], transpose_a, transpose_b); };
}
OpCase matmul_case(const Shape& a, const Shape& b, bool transpose_a = false, bool transpose_b = false) {
  return random_case({a, b}, fmt::format("{}{} times {}{}", a, transpose_a ? "^T" : "", b, transpose_b ? "^T" : ""),
                     matmul_of(transpose_a, transpose_b));
}
OpError matmul_error(const char* message, const Shape& a, const Shape& b, bool transpose_a = false) {
  return error_of_zeros(message, {a, b}, matmul_of(transpose_a));
}

const RegisterOp kMatmul({
    .name = "matmul",
    .cases = {matmul_case({3, 2}, {2, 4}), matmul_case({2, 3}, {2, 4}, true), matmul_case({3, 2}, {4, 2}, false, true),
              matmul_case({2, 3}, {4, 2}, true, true), matmul_case({3, 3}, {3, 3}, true),
              matmul_case({2, 2, 3, 2}, {2, 2, 2, 3}), matmul_case({2, 2, 3}, {2, 2, 4}, true),
              matmul_case({2, 3, 2}, {2, 4, 2}, false, true), matmul_case({2, 2, 3}, {2, 4, 2}, true, true),
              matmul_case({2, 2, 3, 2}, {2, 3}), matmul_case({2, 3, 2}, {4, 2}, false, true),
              matmul_case({0, 3, 2}, {0, 2, 3}), matmul_case({2, 3, 0}, {2, 0, 3}),
              matmul_case({3, 33, 17}, {3, 17, 35})},
    .errors = {matmul_error("matmul: b must be f32 [3, 4] on cpu (a is f32 [2, 3] on cpu), got f32 [2, 4] on cpu",
                            {2, 3}, {2, 4}),
               matmul_error(
                   "matmul: b must be f32 [2, 3, 4] on cpu (a is f32 [2, 2, 3] on cpu), got f32 [3, 3, 4] on cpu",
                   {2, 2, 3}, {3, 3, 4}),
               matmul_error("matmul: b must be f32 [3, 4] on cpu (a is f32 [2, 3] on cpu), got f32 [2, 3, 4] on cpu",
                            {2, 3}, {2, 3, 4}),
               matmul_error("matmul: a must not be transposed if b is a single matrix, got a [2, 2, 3], b [2, 4]",
                            {2, 2, 3}, {2, 4}, true),
               matmul_error("matmul: a must be f32, f64 or bf16 of rank 2 or more, got f32 [2] on cpu", {2}, {2, 4})},
});

TEST(Matmul, MM_1_MM_2_MM_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({2, 2}, {0, 1, -1, 2})},
                  .y = {-2, 5, -4, 11},
                  .dy = {1, 0, 0, 2},
                  .gradients = {{0, -1, 2, 4}, {1, 6, 2, 8}}},
                 matmul_of());
}

}  // namespace
}  // namespace foldgrad::testing
