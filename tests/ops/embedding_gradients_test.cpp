// Gradients of tables on CUDA.
#include <gtest/gtest.h>

#include "ops/embedding/embedding.h"
#include "tests/harness/op_spec.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/global_memory.h"
#endif

namespace foldgrad::testing {
namespace {

constexpr int kTile = 128;  // ids that a block compares at a time

// A third of the positions chooses one row, as words do, and a tenth the padding; the rest is spread out.
std::vector<std::int64_t> like_words(int positions, int rows, std::int64_t frequent, std::int64_t padding) {
  std::vector<std::int64_t> ids(positions);
  for (int m = 0; m < positions; ++m) ids[m] = m % 3 == 1 ? frequent : m % 10 == 0 ? padding : m * 7919 % rows;
  return ids;
}

Tensor table_gradient(Device device, DType dtype, int rows, const std::vector<std::int64_t>& ids, const Tensor& dy,
                      std::int64_t padding) {
  Tape tape;
  const Var x = tape.variable(Tensor::zeros({rows, dy.shape()[1]}, dtype, device));
  const Var i = tape.constant(Tensor::of({std::int64_t(ids.size())}, ids, device));
  tape.backward(embedding(x, i, 1, padding), dy.to(device));
  return tape.grad(x);
}

#ifdef FOLDGRAD_EMULATE
// Random dy, where another order of positions shows in the last bits.
TEST(EmbeddingGradients, EMB_2_SumInTheirOrderWhateverThreadComesFirst) {
  constexpr int kPositions = 2 * kTile + 77, kRows = 70, kColumns = 3;
  constexpr std::int64_t kPadding = 1;
  const auto ids = like_words(kPositions, kRows, /*frequent=*/30, kPadding);
  const Tensor dy = randn({kPositions, kColumns}, 5).to(DType::f32);
  std::vector<float> want(kRows * kColumns);
  for (int m = 0; m < kPositions; ++m)
    for (int c = 0; c < kColumns && ids[m] != kPadding; ++c)
      want[ids[m] * kColumns + c] += dy.data<float>()[m * kColumns + c];
  for (emulation::Order order :
       {emulation::Order::ascending, emulation::Order::descending, emulation::Order::shuffled}) {
    const emulation::OrderScope scope(order);
    EXPECT_EQ(table_gradient(Device::cuda, DType::f32, kRows, ids, dy, kPadding).values<float>(), want);
  }
}

// Kernels move 5 % more than the least, at most, at widths that are and are not whole packs.
TEST(EmbeddingGradients, BothPassesTouchWholeSectors) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int columns : {4, 12, 129, 512, 516}) {
      constexpr int kPositions = 100, kRows = 40;
      const auto ids = like_words(kPositions, kRows, 7, 0);
      const Tensor dy = randn({kPositions, columns}, 6).to(dtype);
      const emulation::CountAccesses count;
      table_gradient(Device::cuda, dtype, kRows, ids, dy, 0);
      const emulation::GlobalAccesses accesses = count.result();
      EXPECT_GE(accesses.bytes, (3 * kPositions - 10) * columns * std::int64_t(size_of(dtype)));
      EXPECT_LE(double(accesses.sectors), 1.05 * double(accesses.least)) << columns << " columns of " << name(dtype);
    }
}
#endif

// Positions around tiles.
TEST(EmbeddingGradients, EMB_2_AroundTiles) {
  for (int positions : {1, 31, 32, 33, kTile - 1, kTile, kTile + 1})
    for (int rows : {2, 257}) {
      const std::int64_t padding = rows / 2;
      const auto ids = like_words(positions, rows, rows - 1, padding);
      std::vector<float> dy(positions);
      for (int m = 0; m < positions; ++m) dy[m] = float(m % 201 - 100);
      std::vector<float> want(rows);
      for (int m = 0; m < positions; ++m) want[ids[m]] += ids[m] == padding ? 0.0f : dy[m];
      for (Device device : devices())
        EXPECT_EQ(
            table_gradient(device, DType::f32, rows, ids, Tensor::of({positions, 1}, dy), padding).values<float>(),
            want)
            << positions << " positions, " << rows << " rows";
    }
}

}  // namespace
}  // namespace foldgrad::testing
