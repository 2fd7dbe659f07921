// Operations along rows (rows.h) whose backward also sums over the rows: what a warp has in registers for dx, it adds
// to sums of its own for the columns that it holds, so that each row is loaded once. For .cu files.
#pragma once
#include "engine/cuda/column_sums.h"
#include "engine/cuda/rows.h"

namespace foldgrad {

constexpr int kRowSumWarps = 8;                 // of a block, each with a row; not tuned
constexpr std::int64_t kMostRowSumParts = 256;  // blocks; not tuned

// Adds what the warps of a block hold of sum k, own[K][N], and writes it to the part of this block. Shared memory:
// [kRowSumWarps, columns].
template <class Share, class F>
__device__ __forceinline__ void write_row_sums(const Share& share, const ColumnSumParts<F>& p, int k,
                                               const typename F::Value (&own)[Share::K][Share::N]) {
  using Value = typename F::Value;
  Value* shared = dynamic_shared<Value>();
  __syncthreads();  // sums before may still be read
  share.each([&](int j, int e) {
    if (share.inside(j)) shared[int(threadIdx.x) / kWarp * share.columns + share.column(j) + e] = own[j][e];
  });
  __syncthreads();
  Value* part = p.partials + (std::int64_t(blockIdx.x) * F::kSums + k) * share.columns;
  for (int c = int(threadIdx.x); c < share.columns; c += kRowSumWarps * kWarp) {
    Value sum = 0;
    for (int warp = 0; warp < kRowSumWarps; ++warp) sum += shared[warp * share.columns + c];
    part[c] = sum;
  }
}

// body(share) for each row of this warp.
template <class Share, class Body>
__device__ __forceinline__ void each_row(Share& share, std::int64_t rows, const Body& body) {
  share.row = std::int64_t(blockIdx.x) * kRowSumWarps + threadIdx.x / kWarp;
  for (; share.row < rows; share.row += std::int64_t(gridDim.x) * kRowSumWarps) body();
}

// Calls body(ShareType) for a share of half the numbers that with_row_share allows a warp, or otherwise().
template <class T, class Body, class Otherwise>
void with_summing_share(std::int64_t columns, bool aligned, const Body& body, const Otherwise& otherwise) {
  constexpr int N = kPackSize<T>, kHalf = kMostRowNumbers<T> / 2, kFew = kHalf / 2;
  const bool packed = aligned && columns % N == 0;
  if (!packed && columns <= kWarp * kFew) return body(ShareType<RowShare<T, kWarp, 1, kFew>>());
  if (packed && columns <= kWarp * kFew) return body(ShareType<RowShare<T, kWarp, N, kFew / N>>());
  if (packed && columns <= kWarp * kHalf) return body(ShareType<RowShare<T, kWarp, N, kHalf / N>>());
  otherwise();
}

template <class F>
void rows_and_column_sums_cuda(const char* name, const F& f, void (*kernel)(ColumnSumParts<F>)) {
  if (f.columns == 0) return;
  const std::int64_t blocks = blocks_for(f.rows, kRowSumWarps);
  const std::int64_t parts = blocks < kMostRowSumParts ? blocks : kMostRowSumParts;
  const std::size_t shared = std::size_t(kRowSumWarps * f.columns) * sizeof(typename F::Value);
  sums_of_parts(name, f, parts, [&](const ColumnSumParts<F>& p) {
    launch(name, kernel, Grid{parts, dim3(kRowSumWarps * kWarp), shared}, p);
  });
}

}  // namespace foldgrad
