// Gradients of tables on CUDA: sorted positions, summed in segments of 16.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/embedding/embedding.h"
#include "tests/harness/op_spec.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/global_memory.h"
#endif

namespace foldgrad::testing {
namespace {

constexpr int kSegment = 16, kTile = 1024;

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
// [EMB-2] for one column, in f32, as CUDA adds: positions sorted by row, in segments; a row's first part, then what
// eight groups of its further parts give, the first of which begins with the first part.
std::vector<float> sums_of_segments(int rows, const std::vector<std::int64_t>& ids, const std::vector<float>& dy,
                                    std::int64_t padding) {
  std::vector<int> order;
  for (int m = 0; m < int(ids.size()); ++m)
    if (ids[m] != padding) order.push_back(m);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return ids[a] < ids[b]; });
  std::vector<std::map<int, float>> parts(rows);  // of each row, by segment
  for (int i = 0; i < int(order.size()); ++i) {
    auto& part = parts[ids[order[i]]].try_emplace(i / kSegment, 0.0f).first->second;
    part += dy[order[i]];
  }
  std::vector<float> sums(rows);
  for (int v = 0; v < rows; ++v) {
    float groups[8] = {};
    int k = -1;  // the first part stands before the first group
    for (const auto& [segment, part] : parts[v]) {
      groups[std::max(k, 0) % 8] += part;
      ++k;
    }
    for (float group : groups) sums[v] += group;
  }
  return sums;
}

// Numbers of the cases below: rows with one part, with several, and with more than there are groups.
struct Counts {
  int whole = 0, parts = 0, many = 0;

  Counts(int rows, const std::vector<std::int64_t>& ids, std::int64_t padding) {
    std::vector<int> n(rows);
    for (std::int64_t id : ids) ++n[id];
    int end = 0;
    for (int v = 0; v < rows; ++v) {
      if (v == padding || n[v] == 0) continue;
      const int segments = (end + n[v] - 1) / kSegment - end / kSegment + 1;
      ++(segments == 1 ? whole : segments <= 9 ? parts : many);
      end += n[v];
    }
  }
};

// Random dy, where another order of positions or parts shows in the last bits.
TEST(EmbeddingSegments, EMB_2_SumsInTheirOrderWhateverThreadComesFirst) {
  constexpr int kPositions = 2 * kTile + 77, kRows = 700, kColumns = 3;
  constexpr std::int64_t kPadding = 1;
  for (std::int64_t frequent : {0, 300, kRows - 1}) {
    const auto ids = like_words(kPositions, kRows, frequent, kPadding);
    const Counts counts(kRows, ids, kPadding);
    ASSERT_TRUE(counts.whole > 100 && counts.parts > 20 && counts.many == 1);
    const Tensor dy = randn({kPositions, kColumns}, 5).to(DType::f32);
    for (emulation::Order order :
         {emulation::Order::ascending, emulation::Order::descending, emulation::Order::shuffled}) {
      const emulation::OrderScope scope(order);
      const auto got = table_gradient(Device::cuda, DType::f32, kRows, ids, dy, kPadding).values<float>();
      for (int c = 0; c < kColumns; ++c) {
        std::vector<float> column(kPositions), got_column(kRows);
        for (int m = 0; m < kPositions; ++m) column[m] = dy.data<float>()[m * kColumns + c];
        for (int v = 0; v < kRows; ++v) got_column[v] = got[v * kColumns + c];
        EXPECT_EQ(got_column, sums_of_segments(kRows, ids, column, kPadding)) << "frequent row " << frequent;
      }
    }
  }
}

// Kernels move 5 % more than the least, at most, at widths that are and are not whole packs.
TEST(EmbeddingSegments, BothPassesTouchWholeSectors) {
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

// Whole numbers, so that CPU and CUDA agree bit for bit: positions around tiles of the sort, rows around its digits.
TEST(EmbeddingSegments, EMB_2_AroundTilesAndDigits) {
  for (int positions : {1, 15, 16, 17, kTile - 1, kTile, kTile + 1})
    for (int rows : {2, 255, 256, 257, 65536}) {
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
