#include "ops/positions/positions.h"

#include <numeric>

#include "ops/segments/segments.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

// Makes a case with two sentences of different lengths.
OpCase sinusoidal_case(std::int64_t N, std::int64_t C) {
  const auto f = [=](auto& v) {
    const Tensor table = sinusoidal_table(N + 2, C, v[0].dtype(), v[0].device());
    return sinusoidal_positions(v[0], Segments({N / 3, N - N / 3}).places(), table);
  };
  return random_case({{N, C}}, fmt::format("[{}, {}]", N, C), f);
}

Var with_learned(const std::vector<Var>& v) { return learned_positions(v[0], v[1]); }
OpCase learned_case(std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t rows) {
  return random_case({{B, T, C}, {rows, C}}, with_learned);
}

// Makes an error case with one sentence of `places` tokens, and a table of `rows` rows and 4 columns.
OpError sinusoidal_error(const char* message, Shape x, std::int64_t places, std::int64_t rows,
                         DType dtype = DType::f32) {
  return {message, [=](Tape& t) {
            sinusoidal_positions(zeros(t, x), Segments({places}).places(), sinusoidal_table(rows, 4, dtype));
          }};
}
OpError learned_error(const char* message, const Shape& x, const Shape& table) {
  return error_of_zeros(message, {x, table}, with_learned);
}

const RegisterOp kSinusoidal({
    .name = "sinusoidal_positions",
    .cases = {sinusoidal_case(10, 4), sinusoidal_case(1, 1), sinusoidal_case(6, 5), sinusoidal_case(0, 4),
              sinusoidal_case(130, 6), sinusoidal_case(6, 129)},
    .errors =
        {sinusoidal_error("sinusoidal_positions: x must be [N, C], got [1, 2, 4]", {1, 2, 4}, 2, 5),
         sinusoidal_error(
             "sinusoidal_positions: places must be i64 [2] on cpu (x is f32 [2, 4] on cpu), got i64 [3] on cpu", {2, 4},
             3, 5),
         sinusoidal_error("sinusoidal_positions: table must have at least 5 rows, for x [3, 4], got [4, 4]", {3, 4}, 3,
                          4),
         sinusoidal_error(
             "sinusoidal_positions: table must be f32 [9, 4] on cpu (x is f32 [3, 4] on cpu), got f64 [9, 4] on cpu",
             {3, 4}, 3, 9, DType::f64),
         {"sinusoidal_table: dtype must be f32, f64 or bf16, got u8",
          [](Tape&) { sinusoidal_table(4, 4, DType::u8); }}},
});

const RegisterOp kLearned({
    .name = "learned_positions",
    .cases = {learned_case(2, 3, 4, 3), learned_case(3, 2, 3, 5), learned_case(1, 1, 1, 1), learned_case(2, 3, 0, 3),
              learned_case(0, 2, 3, 3), learned_case(40, 3, 33, 4)},
    .errors =
        {learned_error("learned_positions: table must have at least 3 rows, for x [2, 3, 4], got [2, 4]", {2, 3, 4},
                       {2, 4}),
         learned_error(
             "learned_positions: table must be f32 [3, 4] on cpu (x is f32 [2, 3, 4] on cpu), got f32 [3, 5] on cpu",
             {2, 3, 4}, {3, 5}),
         learned_error("learned_positions: x must be [B, T, C], got [2, 3, 4, 5]", {2, 3, 4, 5}, {3, 4})},
});

// The expected numbers are from fairseq's table for C = 512. They are in row 2, which is for the first token. Row 1,
// for padding, is zero.
TEST(Positions, POS_1_AsInFairseq) {
  const Tensor table = sinusoidal_table(4, 512, DType::f64);
  const double* row = table.data<double>() + 2 * 512;
  EXPECT_NEAR(row[0], 0.909297, 1e-6);
  EXPECT_NEAR(row[1], 0.936510, 1e-6);
  EXPECT_NEAR(row[256], -0.416147, 1e-6);
  EXPECT_NEAR(row[257], -0.350640, 1e-6);
  EXPECT_NEAR(row[255], 2e-4, 1e-10);  // the lowest frequency is 1 / 10000
  for (int c = 0; c < 512; ++c) EXPECT_EQ(table.data<double>()[512 + c], 0) << c;
}

TEST(Positions, POS_1_TheOnlyFrequencyOfTwoChannelsIsOne) {
  const std::vector<double> table = sinusoidal_table(3, 2, DType::f64).values<double>();
  EXPECT_EQ(table[2 * 2], std::sin(2.0));
  EXPECT_EQ(table[2 * 2 + 1], std::cos(2.0));
}

TEST(Positions, POS_1_AnOddWidthEndsInZeros) {
  const std::vector<double> table = sinusoidal_table(3, 5, DType::f64).values<double>();
  for (int p = 0; p < 3; ++p) EXPECT_EQ(table[p * 5 + 4], 0) << p;
  EXPECT_EQ(table[3], 1);  // cos 0
}

// Row p of the table contains the number p, so y - 100 is the row that was added to each token.
TEST(Positions, POS_2_POS_3_CountsTheTokensOfEachSentence) {
  expect_by_hand({.operands = {Tensor::full({5, 1}, 100, DType::f64)},
                  .y = {102, 103, 102, 103, 104},
                  .dy = std::vector<double>(5, 7),
                  .gradients = {std::vector<double>(5, 7)}},
                 [](auto& v) {
                   const Tensor table = Tensor::of<double>({6, 1}, {0, 1, 2, 3, 4, 5}, v[0].device());
                   return sinusoidal_positions(v[0], Segments({2, 3}).places(), table);
                 });
}

TEST(Positions, POS_4_POS_5_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2, 1}, {1, 2, 3, 4}), numbers({3, 1}, {10, 20, 30})},
                  .y = {11, 22, 13, 24},
                  .dy = {1, 2, 4, 8},
                  .gradients = {{1, 2, 4, 8}, {5, 10, 0}}},
                 with_learned);
}

// A GPU's grid has at most 65,535 blocks in y, so some blocks take two of the 65,537 rows, one after the other: a row
// of 129 columns is too long for a block to take two rows at once.
TEST(Positions, POS_4_MoreRowsThanAGridHasBlocks) {
  const Shape shape = {1, 65537, 129};
  std::vector<float> values(shape.elements());
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor table = Tensor::of({65537, 129}, values);
  for (const Device device : devices()) {
    Tape tape;
    const Var x = tape.constant(Tensor::zeros(shape, DType::f32, device));
    EXPECT_EQ(learned_positions(x, tape.constant(table.to(device))).value().values<float>(), values) << name(device);
  }
}

}  // namespace
}  // namespace foldgrad::testing
