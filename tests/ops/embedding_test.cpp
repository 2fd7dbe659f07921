#include "ops/embedding/embedding.h"

#include <algorithm>

#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/global_memory.h"
#endif

namespace foldgrad::testing {
namespace {

// On CUDA, a block searches kTile ids at a time for its rows. If it has found at most kWaiting positions of a row, they
// wait for the next tile before the block adds them.
constexpr int kTile = 1024, kWaiting = 32;

OpCase embedding_case(std::int64_t rows, std::int64_t columns, Shape ids, double scale = 1, std::int64_t padding = -1) {
  return {.label = fmt::format("{} rows of {}, ids {}, scale {}, padding {}", rows, columns, ids, scale, padding),
          .operands = {randn({rows, columns}, 1), random_ids(ids, rows, 2)},
          .f = [=](const std::vector<Var>& v) { return embedding(v[0], v[1], scale, padding); },
          // By definition, the padding row has no gradient, so central differences would disagree.
          .large = padding >= 0};
}

OpCase gather_case(Shape x, Shape ids) {
  return {.operands = {randn(x, 1), random_ids(ids, x[0], 2)},
          .f = [](const std::vector<Var>& v) { return gather(v[0], v[1]); }};
}

using Lookup = Var (*)(const Var& x, const Var& ids);
OpError lookup_error(const char* message, Lookup f, Shape x, std::vector<std::int64_t> ids) {
  return {message, [=](Tape& t) {
            f(t.constant(Tensor::zeros(x, DType::f32)), t.constant(Tensor::of({std::int64_t(ids.size())}, ids)));
          }};
}
OpError embedding_error(const char* message, Shape table, std::vector<std::int64_t> ids) {
  return lookup_error(
      message, [](const Var& x, const Var& i) { return embedding(x, i); }, table, ids);
}

// Sizes are below and above those of a block: 64 columns on the CPU; 8 rows and 128 packs on CUDA. In some cases, many
// positions select the same row.
const RegisterOp kEmbedding({
    .name = "embedding",
    .cases = {embedding_case(5, 3, {2, 4}, 1.5), embedding_case(1, 1, {3}), embedding_case(7, 2, {1}),
              embedding_case(3, 2, {0}), embedding_case(3, 0, {2}), embedding_case(3, 129, {150}, 0.5),
              embedding_case(520, 65, {5}, 3), embedding_case(7, 8, {16}), embedding_case(8, 12, {17}),
              embedding_case(9, 520, {40}, 0.5, 8), embedding_case(4, 2, {9}, 2, 1)},
    .errors = {embedding_error("embedding: ids must be in [0, 4), got 4 at position 1 of [3]", {4, 2}, {3, 4, 0}),
               embedding_error("embedding: ids must be in [0, 4), got -1 at position 0 of [1]", {4, 2}, {-1}),
               lookup_error(
                   "embedding: ids must be i64 [4, 2] on cpu (the table is f32 [4, 2] on cpu), got f32 [4, 2] on cpu",
                   [](const Var& x, const Var&) { return embedding(x, x); }, {4, 2}, {}),
               embedding_error("embedding: table must be f32, f64 or bf16 of rank 2 or more, got f32 [4] on cpu", {4},
                               {0}),
               embedding_error("embedding: table must be [V, C], got [4, 2, 2]", {4, 2, 2}, {0}),
               lookup_error("embedding: padding_id must be a row of the table [4, 2] or -1, got 4",
                            [](const Var& x, const Var& ids) { return embedding(x, ids, 1, 4); }, {4, 2}, {0})},
    // dx sums up to 56 positions.
    .f32_roundoffs = 400,
});

const RegisterOp kGather({
    .name = "gather",
    .cases = {gather_case({4, 3}, {6}), gather_case({3, 2, 2}, {4}), gather_case({5}, {2, 3}),
              gather_case({1, 2}, {0})},
    .errors = {lookup_error("gather: ids must be in [0, 2), got 2 at position 0 of [1]", gather, {2, 2}, {2}),
               lookup_error("gather: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu", gather, {},
                            {2})},
});

TEST(Embedding, EMB_1_EMB_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor::of<std::int64_t>({4}, {2, 0, 2, 1})},
                  .y = {50, 60, 10, 20, 50, 60, 30, 40},
                  .dy = {1, 2, 3, 4, 5, 6, 7, 8},
                  .gradients = {{30, 40, 0, 0, 60, 80}}},
                 [](auto& v) { return embedding(v[0], v[1], /*scale=*/10, /*padding_id=*/1); });
}

// Returns ids distributed like words: a third are the same frequent id, a fifteenth are padding, and the rest are
// spread over the table.
std::vector<std::int64_t> like_words(int positions, int rows, std::int64_t frequent, std::int64_t padding) {
  std::vector<std::int64_t> ids(positions);
  for (int m = 0; m < positions; ++m) ids[m] = m % 3 == 1 ? frequent : m % 10 == 0 ? padding : m * 7919 % rows;
  return ids;
}

Tensor table_gradient(Device device, int rows, const std::vector<std::int64_t>& ids, const Tensor& dy,
                      std::int64_t padding) {
  return results_of([padding](auto& v) { return embedding(v[0], v[1], 1, padding); },
                    {Tensor::zeros({rows, dy.shape()[1]}, DType::f64), Tensor::of({std::int64_t(ids.size())}, ids)}, dy,
                    dy.dtype(), device)
      .grads[0];
}

// Checks that, in every thread order, the gradient has the same bits as sums in the order of positions. dy is random,
// so the last bits of a sum depend on its order. The harness's test of thread orders could not detect another order,
// because its dy has so few digits that f32 adds it exactly.
template <class T>
::testing::AssertionResult sums_in_order(int rows, int columns, const std::vector<std::int64_t>& ids,
                                         std::int64_t padding) {
  const int positions = int(ids.size());
  const Tensor dy = randn({positions, columns}, 5).to(dtype_of<T>);
  std::vector<compute_t<T>> sums(rows * columns);
  for (int m = 0; m < positions; ++m)
    for (int c = 0; c < columns && ids[m] != padding; ++c)
      sums[ids[m] * columns + c] += compute_t<T>(dy.data<T>()[m * columns + c]);
  const Tensor want = Tensor::of({rows, columns}, sums).to(dtype_of<T>);
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  const auto check = [&](Device device) {
    if (!identical(table_gradient(device, rows, ids, dy, padding).to(Device::cpu), want))
      result = ::testing::AssertionFailure() << positions << " positions, " << columns << " columns of "
                                             << name(dy.dtype()) << " on " << name(device);
  };
  for (Device device : devices()) check(device);
  in_other_thread_orders([&] { check(Device::cuda); });
  return result;
}

TEST(Embedding, EMB_2_SumsInTheOrderOfPositionsWhateverThreadComesFirst) {
  constexpr int kRows = 37;  // in two tiles, a rare row has 32 to 35 positions: kWaiting or a few more
  for (int positions : {kTile - 1, kTile, kTile + 1, 2 * kTile + 77}) {
    const auto ids = like_words(positions, kRows, /*frequent=*/30, /*padding=*/1);
    EXPECT_TRUE(sums_in_order<float>(kRows, 3, ids, 1));
    EXPECT_TRUE(sums_in_order<double>(kRows, 2, ids, 1));
    EXPECT_TRUE(sums_in_order<bf16>(kRows, 4, ids, 1));
  }
  const auto ids = like_words(200, kRows, 30, 1);
  EXPECT_TRUE(sums_in_order<float>(kRows, 129, ids, 1));
  EXPECT_TRUE(sums_in_order<float>(kRows, 516, ids, 1));
  EXPECT_TRUE(sums_in_order<bf16>(kRows, 516, ids, 1));
}

// In the first tile, `row` and its neighbour have kWaiting positions each, the most that may wait. All positions of the
// second tile belong to `row`, so its list is full, while the neighbour's positions still wait.
TEST(Embedding, EMB_2_ARowMayHaveAllPositionsOfATile) {
  for (std::int64_t row : {3, 7}) {
    std::vector<std::int64_t> ids(2 * kTile + 5, row);
    for (int m = kWaiting; m < kTile; ++m) ids[m] = m < 2 * kWaiting ? (row + 1) % 8 : 9;
    EXPECT_TRUE(sums_in_order<float>(10, 3, ids, -1));
  }
}

#ifdef FOLDGRAD_EMULATE
// Both passes access each byte that they need once, and at most 5 % more sectors than necessary, even if a row does not
// consist of whole packs.
TEST(Embedding, BothPassesTouchWholeSectors) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int columns : {4, 12, 129, 512, 516}) {
      constexpr int kPositions = 100, kRows = 40;
      const auto ids = like_words(kPositions, kRows, 7, 0);
      const Tensor dy = randn({kPositions, columns}, 6).to(dtype);
      const emulation::CountAccesses count;
      table_gradient(Device::cuda, kRows, ids, dy, 0);
      const emulation::GlobalAccesses accesses = count.result();
      const std::int64_t counted = kPositions - std::count(ids.begin(), ids.end(), 0);
      const std::int64_t least =
          // For each position a row of x and a row of y, for each that is not padding a row of dy, and dx in f32.
          columns * ((2 * kPositions + counted) * std::int64_t(size_of(dtype)) + kRows * 4);
      EXPECT_GE(accesses.bytes, least);
      // For bf16, a second kernel reads dx in f32 and writes it rounded: 4 + 2 bytes.
      EXPECT_LE(accesses.bytes, least + (dtype == DType::bf16 ? kRows * columns * 6 : 0));
      EXPECT_LE(double(accesses.sectors), 1.05 * double(accesses.least)) << columns << " columns of " << name(dtype);
    }
}
#endif

TEST(Embedding, EMB_1_AnUnknownIdGivesNaNOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  Tape tape;
  const Var x = tape.variable(Tensor::of<double>({2, 1}, {3, 4}, Device::cuda));
  const Var y = embedding(x, tape.constant(Tensor::of<std::int64_t>({3}, {1, 2, -1}, Device::cuda)));
  const std::vector<double> got = y.value().values<double>();
  EXPECT_EQ(got[0], 4);
  EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
  tape.backward(y, Tensor::of<double>({3, 1}, {1, 2, 3}, Device::cuda));
  EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0, 1}));
}

// Selecting rows is multiplication by a matrix of zeros and ones, so the gradient is the transpose of that matrix times
// dy; the gradient of the padding row is 0. The numbers of positions include 31, 32 and 33, since a warp has 32
// threads.
RC_GTEST_PROP(Embedding, EMB_2_IsTheTransposeOfTheChoice, ()) {
  const int rows = *rc::gen::element(1, 2, 3, 8, 257), columns = *rc::gen::inRange(1, 5),
            positions = *rc::gen::element(0, 1, 31, 32, 33, 200), padding = *rc::gen::inRange(-1, rows);
  const auto chosen =
      *rc::gen::container<std::vector<std::int64_t>>(positions, rc::gen::inRange<std::int64_t>(0, rows));
  RC_ASSERT(sums_in_order<double>(rows, columns, chosen, padding));
}

}  // namespace
}  // namespace foldgrad::testing
