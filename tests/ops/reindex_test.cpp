#include "ops/reindex/reindex.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

// Returns the order 0, stride, 2 stride, ... modulo `rows`. It is a permutation only if stride and rows are coprime.
RowOrder strided(std::int64_t rows, std::int64_t stride, Device device) {
  std::vector<std::int64_t> order;
  for (std::int64_t n = 0; n < rows; ++n) order.push_back(n * stride % rows);
  return RowOrder(order, device);
}

OpCase reindex_case(std::int64_t blocks, std::int64_t rows, std::int64_t stride, std::int64_t columns) {
  return random_case({{blocks * rows, columns}}, fmt::format("{} blocks of {} rows of {}", blocks, rows, columns),
                     [=](auto& v) { return reindex(v[0], strided(rows, stride, v[0].device())); });
}

// Some cases have one row or none, no columns, rows that are not whole packs, or more columns than the 256 threads of a
// block.
const RegisterOp kReindex({
    .name = "reindex",
    .cases = {reindex_case(2, 3, 2, 5), reindex_case(1, 1, 1, 1), reindex_case(0, 3, 2, 4), reindex_case(2, 3, 2, 0),
              reindex_case(3, 49, 5, 16), reindex_case(2, 7, 3, 257)},
    .errors = {{"reindex: x must be [rows, columns] with a multiple of 3 rows, the length of the order, got f32 [4, 2] "
                "on cpu",
                [](Tape& t) {
                  reindex(zeros(t, 4, 2), RowOrder({2, 0, 1}));
                }},
               {"reindex: x must be [rows, columns] with a multiple of 2 rows, the length of the order, got f32 [2, 2, "
                "2] on cpu",
                [](Tape& t) {
                  reindex(zeros(t, 2, 2, 2), RowOrder({1, 0}));
                }},
               {"reindex: the order must contain each of 0 ... 2 exactly once, got [0, 2, 2]",
                [](Tape&) {
                  RowOrder({0, 2, 2});
                }},
               {"reindex: the order must contain each of 0 ... 1 exactly once, got [0, 2]",
                [](Tape&) {
                  RowOrder({0, 2});
                }}},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

TEST(Reindex, REINDEX_1_REINDEX_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
                  .y = {5, 6, 1, 2, 3, 4, 11, 12, 7, 8, 9, 10},
                  .dy = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120},
                  .gradients = {{30, 40, 50, 60, 10, 20, 90, 100, 110, 120, 70, 80}}},
                 [](auto& v) {
                   return reindex(v[0], RowOrder({2, 0, 1}, v[0].device()));
                 });
}

}  // namespace
}  // namespace foldgrad::testing
