// Shapes for tests of row operations (engine/cpu/row_op.h, engine/cuda/row_op.h).
#pragma once
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {

// Returns `more`, followed by make(rows, columns) for shapes below, at and above the sizes at which kernels change.
template <class Make>
std::vector<OpCase> row_cases(const Make& make, std::vector<OpCase> more = {}) {
  // The first six shapes have at most 33 columns, one more than a warp has threads. On the CPU, {40, 3} has three
  // blocks of rows. The next four shapes have about as many columns as a block has threads, 256. The other numbers of
  // columns are near those at which the CUDA kernels of some element type change from packs in a warp to packs in a
  // block, or to no packs.
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {3, 2},   {2, 31},  {2, 32},  {2, 33},  {40, 3},   {0, 8},    {1, 255},  {3, 256},  {1, 257},   {70, 300},
      {5, 128}, {5, 136}, {3, 512}, {2, 520}, {2, 1032}, {1, 2051}, {1, 2056}, {1, 4104}, {1, 16392},
  };
  std::vector<OpCase> cases = std::move(more);
  for (const auto& [rows, columns] : shapes) cases.push_back(make(rows, columns));
  return cases;
}

}  // namespace foldgrad::testing
