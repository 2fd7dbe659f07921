// The kernel of cells_test.cpp.
#pragma once
#include <cstdint>

namespace foldgrad::testing {

// Adds 1 to visits[(s * rows + r) * columns + c] each time the kernel visits cell (s, r, c).
void count_cells_cuda(int* visits, std::int64_t batch, std::int64_t rows, std::int64_t columns);

}  // namespace foldgrad::testing
