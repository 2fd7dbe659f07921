#include "ops/permute/permute.h"

#include <numeric>

#include "tests/harness/by_hand.h"
#include "tests/harness/generators.h"

namespace foldgrad::testing {
namespace {

OpFunction permute_of(std::vector<int> axes) {
  return [axes](auto& v) { return permute(v[0], axes); };
}
OpCase permute_case(const Shape& x, const std::vector<int>& axes) {
  return random_case({x}, fmt::format("{}, first axis {}", x, axes.empty() ? -1 : axes[0]), permute_of(axes));
}
OpError permute_error(const char* message, const Shape& x, const std::vector<int>& axes, DType dtype = DType::f32) {
  return error_of_zeros(message, {x}, permute_of(axes), dtype);
}

// Some cases copy rows, others transpose matrices. Some axes can be merged, and axes of size 1 can be dropped. Some
// sizes are one below or above a multiple of the tile size, which is 64 on the CPU and 32 on CUDA.
const RegisterOp kPermute({
    .name = "permute",
    .cases = {permute_case({2, 3}, {1, 0}), permute_case({2, 3, 4}, {1, 0, 2}), permute_case({2, 3, 4}, {2, 0, 1}),
              permute_case({2, 3, 4}, {2, 1, 0}), permute_case({2, 3, 4}, {0, 1, 2}), permute_case({}, {}),
              permute_case({5}, {0}), permute_case({2, 1, 3, 1}, {3, 2, 1, 0}), permute_case({2, 0, 3}, {2, 1, 0}),
              permute_case({2, 3, 2, 3, 2}, {4, 3, 2, 1, 0}), permute_case({2, 2, 2, 2, 2, 2}, {5, 4, 3, 2, 1, 0}),
              permute_case({33, 65}, {1, 0}), permute_case({65, 127}, {1, 0}),
              permute_case({2, 31, 3, 33}, {0, 2, 1, 3}), permute_case({3, 17, 33}, {2, 0, 1}),
              permute_case({32, 16, 2}, {1, 2, 0})},
    .errors = {permute_error("permute: axes must contain each of the 3 axes of [2, 3, 4] exactly once, got [0, 1, 1]",
                             {2, 3, 4}, {0, 1, 1}),
               permute_error("permute: axes must contain each of the 3 axes of [2, 3, 4] exactly once, got [2, -1, 1]",
                             {2, 3, 4}, {2, -1, 1}),
               permute_error("permute: axes must contain each of the 2 axes of [2, 3] exactly once, got [1]", {2, 3},
                             {1}),
               permute_error("permute: at most 6 groups of axes may change their order, got 7", {2, 2, 2, 2, 2, 2, 2},
                             {6, 5, 4, 3, 2, 1, 0}),
               permute_error("permute: x must be f32, f64 or bf16, got i64 [2] on cpu", {2}, {0}, DType::i64)},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

// x has the sizes 2, 1, 3, and y[c, a, b] = x[a, b, c].
TEST(Permute, PER_1_PER_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 1, 3}, {0, 1, 2, 10, 11, 12})},
                  .y = {0, 10, 1, 11, 2, 12},
                  .dy = {1, 2, 3, 4, 5, 6},
                  .gradients = {{1, 3, 5, 2, 4, 6}},
                  .shape = Shape{3, 2, 1}},
                 permute_of({2, 0, 1}));
}

// The result has 16,450 columns. The CPU divides them into two parts, because a part has at most 16,384 columns.
TEST(Permute, PER_1_LongRows) {
  Tape tape;
  const Tensor x = randn({16450, 2}, 1), y = permute(tape.constant(x), {1, 0}).value();
  for (std::int64_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y.data<double>()[i % 2 * 16450 + i / 2], x.data<double>()[i]) << i;
}

// Compares every element with the definition, for random orders of one to six axes.
RC_GTEST_PROP(Permute, PER_1_EveryElementIsInItsPlace, ()) {
  const int rank = *rc::gen::inRange(1, 7);
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  for (int k = 0; k < rank; ++k) std::swap(axes[k], axes[*rc::gen::inRange(k, rank).as("axis")]);
  const Tensor x = *any_tensor(*any_shape(rank, 4));
  for (Device device : devices()) {
    Tape tape;
    const Tensor y = permute(tape.constant(x.to(device)), axes).value().to(Device::cpu);
    for (std::int64_t i = 0; i < y.size(); ++i) {
      std::int64_t from = 0;
      for (int k = 0; k < rank; ++k) from += i / y.shape().stride(k) % y.shape()[k] * x.shape().stride(axes[k]);
      RC_ASSERT(y.data<double>()[i] == x.data<double>()[from]);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
