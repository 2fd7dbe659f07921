// Kernels of last_block_test.cpp.
#pragma once
#include <cstdint>

namespace foldgrad::testing {

// The sums of the columns of x by blocks of rows, added up by the last block of each strip of columns, and then all of
// them by the last of these.
struct LastBlockSums {
  const double* x;   // [blocks, columns]
  double* partials;  // [blocks, columns]: written by one block each
  double* sums;      // [columns]
  double* total;     // [1]
  unsigned* arrivals;
  int blocks, columns;
};
// Strips of 32 columns. All threads of a block write, and other threads of the last block read what they wrote.
void last_block_sums_cuda(const LastBlockSums& p);

}  // namespace foldgrad::testing
