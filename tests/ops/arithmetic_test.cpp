#include "ops/arithmetic/arithmetic.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

using Binary = Var (*)(const Var&, const Var&);

OpCase binary_case(Binary op, const Shape& shape) {
  return random_case({shape, shape}, [op](auto& v) { return op(v[0], v[1]); });
}

OpSpec binary_spec(const char* name, Binary op) {
  const OpFunction f = [op](auto& v) { return op(v[0], v[1]); };
  return {.name = name,
          // The last case has more elements than a CUDA block has threads, 256; the other cases have fewer.
          .cases = {binary_case(op, {2, 3}), binary_case(op, {}), binary_case(op, {33}), binary_case(op, {255}),
                    binary_case(op, {3, 257})},
          .errors = {error_of_zeros(
                         fmt::format("{}: b must be f32 [3] on cpu (a is f32 [3] on cpu), got f32 [1] on cpu", name),
                         {{3}, {1}}, f),
                     error_of_zeros(fmt::format("{}: a must be f32, f64 or bf16, got i64 [3] on cpu", name), {{3}, {3}},
                                    f, DType::i64)},
          .f32_roundoffs = 4,
          .bf16_roundoffs = 4};
}
const RegisterOp kAdd(binary_spec("add", add));
const RegisterOp kSub(binary_spec("sub", sub));
const RegisterOp kMul(binary_spec("mul", mul));

OpCase scale_case(const Shape& shape, double s) {
  return random_case({shape}, fmt::format("{} times {}", shape, s), [s](auto& v) { return scale(v[0], s); });
}
const RegisterOp kScale({.name = "scale",
                         .cases = {scale_case({2, 3}, -0.75), scale_case({}, 0), scale_case({3, 257}, 3)},
                         .errors = {error_of_zeros(
                             "scale: a must be f32, f64 or bf16, got i64 [3] on cpu", {{3}},
                             [](auto& v) { return scale(v[0], 2); }, DType::i64)},
                         .f32_roundoffs = 4,
                         .bf16_roundoffs = 4});

OpCase add_bias_case(const Shape& shape) {
  return random_case({shape, {shape[-1]}}, [](auto& v) { return add_bias(v[0], v[1]); });
}
// The numbers of columns include 31 and 33, since the sums in dbias depend on the 32 lanes of a warp. The last case has
// more elements than a block of the CPU's loop, 4,096; the other cases have fewer.
const RegisterOp kAddBias({
    .name = "add_bias",
    .cases = {add_bias_case({3, 2}), add_bias_case({5}), add_bias_case({2, 2, 3}), add_bias_case({40, 3}),
              add_bias_case({3, 31}), add_bias_case({3, 33}), add_bias_case({70, 300})},
    .errors = {{"add_bias: bias must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                [](Tape& t) { add_bias(zeros(t, 2, 8), zeros(t, 4)); }},
               {"add_bias: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { add_bias(zeros(t), zeros(t)); }}},
    .f32_roundoffs = 100,  // dbias sums up to 70 rows
});

ByHand binary_by_hand(std::vector<double> y, std::vector<double> da, std::vector<double> db) {
  return {.operands = {numbers({2}, {2, -3}), numbers({2}, {5, 7})},
          .y = std::move(y),
          .dy = {10, 100},
          .gradients = {std::move(da), std::move(db)}};
}

TEST(Arithmetic, AR_1_AR_2_AR_3_WorkedByHand) {
  expect_by_hand(binary_by_hand({7, 4}, {10, 100}, {10, 100}), [](auto& v) { return add(v[0], v[1]); });
  expect_by_hand(binary_by_hand({-3, -10}, {10, 100}, {-10, -100}), [](auto& v) { return sub(v[0], v[1]); });
  expect_by_hand(binary_by_hand({10, -21}, {50, 700}, {20, -300}), [](auto& v) { return mul(v[0], v[1]); });
}

TEST(Arithmetic, AR_4_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2}, {2, -3})}, .y = {-1, 1.5}, .dy = {10, 100}, .gradients = {{-5, -50}}},
                 [](auto& v) { return scale(v[0], -0.5); });
}

TEST(Arithmetic, AR_5_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({2}, {10, 20})},
                  .y = {11, 22, 13, 24},
                  .dy = {1, 10, 100, 1000},
                  .gradients = {{1, 10, 100, 1000}, {101, 1010}}},
                 [](auto& v) { return add_bias(v[0], v[1]); });
}

}  // namespace
}  // namespace foldgrad::testing
