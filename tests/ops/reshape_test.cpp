#include "ops/reshape/reshape.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpCase reshape_case(const Shape& x, std::vector<std::int64_t> sizes) {
  return random_case({x}, fmt::format("{} to {} axes", x, sizes.size()),
                     [sizes](auto& v) { return reshape(v[0], sizes); });
}
OpError reshape_error(const char* message, const Shape& x, std::vector<std::int64_t> sizes, DType dtype = DType::f32) {
  return error_of_zeros(
      message, {x}, [sizes](auto& v) { return reshape(v[0], sizes); }, dtype);
}

const RegisterOp kReshape({
    .name = "reshape",
    .cases = {reshape_case({2, 6}, {3, 4}), reshape_case({2, 6}, {4, -1}), reshape_case({1}, {}),
              reshape_case({2, 0}, {0, 5})},
    .errors = {reshape_error("reshape: [4, 4] does not fit the 12 elements of [2, 6]", {2, 6}, {4, 4}),
               reshape_error("reshape: [5, -1] does not fit the 12 elements of [2, 6]", {2, 6}, {5, -1}),
               reshape_error("reshape: x must be f32, f64 or bf16, got i64 [2] on cpu", {2}, {2}, DType::i64)},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

TEST(Reshape, RES_1_IsAView) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}, device));
    const Var y = reshape(x, {3, -1});
    EXPECT_TRUE(y.value().shares_storage_with(x.value()));
    EXPECT_EQ(y.shape(), (Shape{3, 2}));
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    tape.backward(y, Tensor::of<double>({3, 2}, {6, 5, 4, 3, 2, 1}, device));
    EXPECT_EQ(tape.grad(x).shape(), (Shape{2, 3}));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{6, 5, 4, 3, 2, 1}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
