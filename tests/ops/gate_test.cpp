#include "ops/gate/gate.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

Var gated(const std::vector<Var>& v) { return gate(v[0], v[1]); }
OpCase gate_case(std::int64_t B, std::int64_t T, std::int64_t C) { return random_case({{B, T, C}, {B, C}}, gated); }
OpError gate_error(const char* message, const Shape& x, const Shape& w) {
  return error_of_zeros(message, {x, w}, gated);
}

// The numbers of columns are below and above a chunk of 64 (CPU) and a block of 256 threads (CUDA).
const RegisterOp kGate({
    .name = "gate",
    .cases = {gate_case(2, 3, 4), gate_case(3, 1, 1), gate_case(1, 5, 7), gate_case(0, 3, 2), gate_case(2, 0, 2),
              gate_case(3, 5, 65), gate_case(2, 3, 300), gate_case(2, 40, 64)},
    .errors = {gate_error("gate: x must be f32, f64 or bf16 of rank 3 or more, got f32 [2, 3] on cpu", {2, 3}, {2, 3}),
               gate_error("gate: x must have 3 axes, got [1, 2, 3, 4]", {1, 2, 3, 4}, {1, 4}),
               gate_error("gate: w must be f32 [2, 4] on cpu (x is f32 [2, 3, 4] on cpu), got f32 [2, 3] on cpu",
                          {2, 3, 4}, {2, 3})},
});

TEST(Gate, GATE_1_GATE_2_GATE_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), numbers({2, 2}, {1, 10, 0, -1})},
                  .y = {1, 20, 3, 40, 0, -6, 0, -8},
                  .dy = {1, 2, 10, 20, 1, 2, 3, 4},
                  .gradients = {{1, 20, 10, 200, 0, -2, 0, -4}, {31, 84, 26, 44}}},
                 gated);
}

}  // namespace
}  // namespace foldgrad::testing
