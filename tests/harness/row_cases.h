// The shapes for tests of operations along rows (engine/cpu/row_op.h, engine/cuda/row_op.h).
#pragma once
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {

// Returns make(rows, columns) for the shapes around the seams, and `more`.
template <class Make>
std::vector<OpCase> row_cases(const Make& make, std::vector<OpCase> more = {}) {
  // Columns around one warp, with enough rows for two blocks of rows on the CPU, or none; columns around one block of
  // 256 threads, with many rows; and columns where one form of the CUDA kernels ends, for some element type: packs in a
  // warp, in a block, none.
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {3, 2},   {2, 31},  {2, 32},  {2, 33},  {40, 3},   {0, 8},    {1, 255},  {3, 256},  {1, 257},   {70, 300},
      {5, 128}, {5, 136}, {3, 512}, {2, 520}, {2, 1032}, {1, 2051}, {1, 2056}, {1, 4104}, {1, 16392},
  };
  std::vector<OpCase> cases = std::move(more);
  for (const auto& [rows, columns] : shapes) cases.push_back(make(rows, columns));
  return cases;
}

}  // namespace foldgrad::testing
