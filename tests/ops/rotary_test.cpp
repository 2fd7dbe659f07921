#include "ops/rotary/rotary.h"

#include "ops/segments/segments.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

// Makes a case with two sentences of different lengths. All heads are rotated except the last `copied` heads.
OpCase rotary_case(std::int64_t N, std::int64_t heads, std::int64_t width, std::int64_t copied) {
  const auto f = [=](auto& v) {
    const Tensor& x = v[0].value();
    const RotaryTable table(N, width, /*theta=*/100, x.dtype(), x.device());
    return rotary(v[0], Segments({N / 3, N - N / 3}).places().to(x.device()), table, (heads - copied) * width);
  };
  return random_case({{N, heads * width}}, fmt::format("{} rows, {} heads of {}, {} copied", N, heads, width, copied),
                     f);
}

// Makes an error case with a table of three places and heads of four columns.
OpError rotary_error(const char* message, Shape x, std::vector<std::int64_t> places, std::int64_t columns,
                     DType dtype = DType::f32) {
  return {message, [=](Tape& t) {
            rotary(zeros(t, x), Tensor::of({std::int64_t(places.size())}, places), RotaryTable(3, 4, 1e4, dtype),
                   columns);
          }};
}
OpError table_error(const char* message, std::int64_t width, double theta) {
  return {message, [=](Tape&) { RotaryTable(3, width, theta, DType::f32); }};
}

// The last case has more rows than a GPU's grid has blocks in z, so some blocks take two rows.
const RegisterOp kRotary({
    .name = "rotary",
    .cases = {rotary_case(7, 3, 4, 1), rotary_case(5, 1, 2, 0), rotary_case(4, 2, 6, 2), rotary_case(0, 2, 4, 1),
              rotary_case(3, 300, 2, 100), rotary_case(70, 3, 66, 1), rotary_case(65537, 1, 2, 0)},
    .errors = {rotary_error("rotary: x must be [N, H D] for heads of D = 4 columns, got [2, 6]", {2, 6}, {0, 1}, 4),
               rotary_error("rotary: x must be [N, H D] for heads of D = 4 columns, got [2, 2, 4]", {2, 2, 4}, {0}, 4),
               rotary_error("rotary: columns must be a multiple of 4 and at most 8, got 6", {2, 8}, {0, 1}, 6),
               rotary_error("rotary: columns must be a multiple of 4 and at most 8, got 12", {2, 8}, {0, 1}, 12),
               rotary_error("rotary: places must be i64 [2] on cpu (x is f32 [2, 8] on cpu), got i64 [1] on cpu",
                            {2, 8}, {0}, 4),
               rotary_error("rotary: places must be in [0, 3), got 3", {2, 8}, {0, 3}, 4),
               rotary_error(
                   "rotary: the table must be f32 [3, 2] on cpu (x is f32 [2, 8] on cpu), got f64 [3, 2] on cpu",
                   {2, 8}, {0, 1}, 4, DType::f64),
               table_error("rotary: the width of a head must be even and at least 2, got 3", 3, 1e4),
               table_error("rotary: the width of a head must be even and at least 2, got 0", 0, 1e4),
               table_error("rotary: theta must be a number above 0, got 0", 4, 0),
               table_error("rotary: theta must be a number above 0, got inf", 4, INFINITY)},
});

// At place 1, the first pair of columns is rotated by one radian, and the second by 4^(-2/4) = 1/2 radian.
TEST(Rotary, ROT_1_ROT_2_ROT_3_WorkedByHand) {
  const double c = std::cos(1), s = std::sin(1), c2 = std::cos(0.5), s2 = std::sin(0.5);
  expect_by_hand({.operands = {numbers({2, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 1, 5, 6, 7, 8})},
                  .y = {1, 2, 3, 4, 5, 6, 7, 8, c, s, -s2, c2, 5, 6, 7, 8},
                  .dy = {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 1, 5, 6, 7, 8},
                  .gradients = {{1, 2, 3, 4, 5, 6, 7, 8, c, -s, s2, c2, 5, 6, 7, 8}}},
                 [](auto& v) {
                   const Device device = v[0].device();
                   return rotary(v[0], Tensor::of<std::int64_t>({2}, {0, 1}, device),
                                 RotaryTable(2, 4, /*theta=*/4, v[0].dtype(), device), /*columns=*/4);
                 });
}

// Rows 0 to 2 are the same query, and rows 3 to 5 the same key, at various places. In the first two pairs of a query
// and a key, the places differ by 3; in the last pair, they differ by 2.
TEST(Rotary, ScoresDependOnTheDifferenceOfPlaces) {
  const Tensor q = randn({1, 6}, 1), k = randn({1, 6}, 2), x = Tensor::empty({6, 6}, DType::f64);
  for (std::int64_t r = 0; r < 6; ++r) x.slice(r, r + 1).copy_from(r < 3 ? q : k);
  Tape tape;
  const Tensor y = rotary(tape.constant(x), Tensor::of<std::int64_t>({6}, {9, 5, 5, 6, 2, 3}),
                          RotaryTable(10, 6, 1e4, DType::f64), 6)
                       .value();
  const auto score = [&](std::int64_t query) {
    double sum = 0;
    for (std::int64_t c = 0; c < 6; ++c) sum += y.data<double>()[query * 6 + c] * y.data<double>()[(query + 3) * 6 + c];
    return sum;
  };
  EXPECT_NEAR(score(0), score(1), 1e-13);  // rounding of six products
  EXPECT_GT(std::abs(score(0) - score(2)), 1e-3);
}

TEST(Rotary, OnCudaARowOfAnUnknownPlaceIsNaN) {
  for (const Device device : devices()) {
    if (device == Device::cpu) continue;
    Tape tape;
    const Var x = tape.constant(Tensor::full({3, 4}, 1, DType::f32, device));
    const std::vector<float> y =
        rotary(x, Tensor::of<std::int64_t>({3}, {1, -1, 2}, device), RotaryTable(2, 2, 1e4, DType::f32, device), 2)
            .value()
            .values<float>();
    for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(y[i]), i / 4 > 0 && i % 4 < 2) << i;
  }
}

}  // namespace
}  // namespace foldgrad::testing
