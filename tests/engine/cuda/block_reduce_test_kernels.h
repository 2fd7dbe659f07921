// Kernels of block_reduce_test.cpp.
#pragma once
#include <cstdint>

#include "engine/grad_out.h"

namespace foldgrad::testing {

struct BlockReduction {
  const double* x;    // [blocks, n]
  double *sum, *max;  // [blocks, threads]: the result that each thread gets
  std::int64_t n;
};
// Reduces each row of x with a separate block.
void reduce_rows_cuda(const BlockReduction& p, unsigned blocks, unsigned threads);

// The sum and the sum of squares of each column.
struct Moments {
  static constexpr const char* kName = "moments";
  using Value = double;
  static constexpr int kSums = 2;
  const double* x;  // [rows, columns]
  double* out;      // [2, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const double v = x[r * columns + c];
    sums[0] += v;
    sums[1] += v * v;
  }
  FOLDGRAD_HD ParameterGradOut<double> total(int k) const { return {out + k * columns}; }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.element(x);
  }
};
void moments_cuda(const Moments& p);

}  // namespace foldgrad::testing
