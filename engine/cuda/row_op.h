// CUDA loops for row operations. engine/cpu/row_op.h describes their parameter structs. This header is for .cu files.
#pragma once
#include <cmath>

#include "engine/cuda/column_sums.h"
#include "engine/kernels.h"

namespace foldgrad {

template <int k, class F>
using RowMerge = std::conditional_t<kTakesMaxima<k, F>, Max, Sum>;
template <int k, class F>
FOLDGRAD_HD constexpr typename F::Value row_identity() {
  return kTakesMaxima<k, F> ? typename F::Value(-HUGE_VAL) : typename F::Value(0);
}

// Runs steps k, k + 1, ... of F on row r. All threads of a block share the row.
template <int k, class F>
__device__ void reduce_row(const F& f, typename F::Row& row, std::int64_t r) {
  using Value = typename F::Value;
  if constexpr (k < F::kSteps) {
    Value* scratch = dynamic_shared<Value>();  // one value per warp
    Value sums[F::kTerms];
    for (Value& sum : sums) sum = row_identity<k, F>();
    for (std::int64_t c = threadIdx.x; c < f.columns; c += blockDim.x)
      f.reduce(Step<k>(), row, r * f.columns + c, c, sums);
    for (Value& sum : sums) sum = block_reduce(sum, scratch, row_identity<k, F>(), RowMerge<k, F>{});
    f.finish(Step<k>(), row, sums);
    reduce_row<k + 1>(f, row, r);
  }
}

// Uses one block per row. Rows may have any length.
template <class F>
__global__ void row_kernel(F f) {
  const std::int64_t r = blockIdx.x;
  typename F::Row row = f.row(r);
  reduce_row<0>(f, row, r);
  if (threadIdx.x == 0) f.keep(row, r);
  if (!f.target()) return;
  for (std::int64_t c = threadIdx.x; c < f.columns; c += blockDim.x)
    put_result(f.target(), r * f.columns + c, f.value(row, r * f.columns + c, c));
}

template <class F>
void row_op_cuda(const F& f) {
  launch(F::kName, row_kernel<F>, one_block_per_row<typename F::Value>(f.rows), f);
}

// Wraps F so that engine/cuda/column_sums.h computes only its column sums.
template <class F>
struct ColumnSumsOf {
  static constexpr const char* kName = F::kName;
  using Value = typename F::Value;
  static constexpr int kSums = F::kSums;

  F f;
  std::int64_t rows = f.rows, columns = f.columns;

  // The loops redirect the operands to packs (operands.h): r is 0, and c is a column of the pack.
  __device__ void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    f.add(f.row(r), r * columns + c, c, sums);
  }
  FOLDGRAD_HD auto total(int k) const { return f.total(k); }
  FOLDGRAD_OPERANDS(f.operands(visit));
};

// The element type is the type of F::dy.
template <class F>
constexpr int kPackOf<ColumnSumsOf<F>> = kPackSize<std::remove_cv_t<std::remove_pointer_t<decltype(F::dy)>>>;

// Runs one kernel for the results, and two for the sums over rows.
template <class F>
void row_op_with_column_sums_cuda(const F& f) {
  if (f.target()) row_op_cuda(f);
  if (wants_column_sums(f)) column_sums_cuda(ColumnSumsOf<F>{f});
}

}  // namespace foldgrad
