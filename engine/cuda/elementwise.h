// CUDA loops for element-wise operations (engine/cpu/elementwise.h). This header is for .cu files.
#pragma once
#include "engine/cuda/operands.h"

namespace foldgrad {

constexpr int kElementwiseThreads = 256;  // not tuned
constexpr std::int64_t kElementwiseBlocks = 1 << 16;

inline Grid elementwise_grid(std::int64_t threads) {
  return {std::min(blocks_for(threads, kElementwiseThreads), kElementwiseBlocks), dim3(kElementwiseThreads)};
}

// Runs f(i) for i < f.n, one element at a time, for structs that do not name their operands. The kernel is a
// grid-stride loop, so any grid covers all n elements. The loop is not unrolled: an unrolled loop would begin with a
// division to find the number of iterations, which is usually 1.
template <class F>
__global__ void elementwise_kernel(F f) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < f.n; i += stride)
    run_element(f, PackBits<F>(f, i), i);
}

// Runs f for elements i ... i + N - 1.
template <int N, class F>
__device__ __forceinline__ void run_pack(const F& given, std::int64_t i) {
  OperandPacks<N> packs;
  F f = visited(given, FetchElements<N>{{packs}, i, 0, true});
  start_elements(f, i, 0);
  const PackBits<F> bits(f, i);
  FOLDGRAD_UNROLL
  for (int k = 0; k < N; ++k) run_element(f, bits, k);
  visited(given, StoreResults<N>{{packs}, i, true});
}

// Runs whole packs of N first, then the remaining elements one by one.
template <int N, class F>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_packs_kernel(F f) {
  const std::int64_t packs = f.n / N, stride = std::int64_t(gridDim.x) * blockDim.x;
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = first; i < packs; i += stride) run_pack<N>(f, i * N);
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = packs * N + first; i < f.n; i += stride) run_pack<1>(f, i);
}

// Runs f for all elements. If f names its operands (operands.h), uses packs of 16 bytes of the element type.
template <class F>
void elementwise_cuda(const F& f) {
  if constexpr (HasOperands<F>::value) {
    constexpr int N = kPackOf<F>;
    if (aligned_operands<N>(f))
      launch(F::kName, elementwise_packs_kernel<N, F>, elementwise_grid((f.n + N - 1) / N), f);
    else
      launch(F::kName, elementwise_packs_kernel<1, F>, elementwise_grid(f.n), f);
  } else {
    launch(F::kName, elementwise_kernel<F>, elementwise_grid(f.n), f);
  }
}

// For a matrix [rows, columns], each thread keeps its columns and walks down the rows. So it finds an element's column
// without a division, and loads gains and biases only once.

constexpr int kMatrixThreads = 256;         // not tuned
constexpr std::int64_t kRowsPerThread = 4;  // rows that a thread processes if the matrix has enough rows; not tuned

// The shape of a block of kMatrixThreads threads: `across` threads in a row, each with N columns.
struct MatrixThreads {
  std::int64_t across;
  std::int64_t strips;  // number of blocks that cover a row

  MatrixThreads(std::int64_t columns, int N) : across(1) {
    const std::int64_t packs = blocks_for(columns, N);
    while (across < 32 && across < packs) across *= 2;
    strips = blocks_for(packs, across);
  }
  dim3 block() const { return {unsigned(across), unsigned(kMatrixThreads / across)}; }
};

template <int N, class F>
__global__ void __launch_bounds__(kMatrixThreads, 4) matrix_kernel(F p) {
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  OperandPacks<N> packs;
  const F with_columns = visited(p, FetchColumns<N>{{packs}, c, wanted});
  const std::int64_t stride = std::int64_t(gridDim.y) * blockDim.y;
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < p.rows; r += stride) {
    const std::int64_t i = r * p.columns + c;
    F f = visited(with_columns, FetchElements<N>{{packs}, i, r, wanted});
    if (wanted) start_elements(f, i, r);
    const PackBits<F> bits(f, i);
    FOLDGRAD_UNROLL
    for (int k = 0; k < N && wanted; ++k) run_element(f, bits, k, std::int64_t(k));
    visited(p, StoreResults<N>{{packs}, i, wanted});
  }
}

template <int N, class F>
void launch_matrix(const F& f) {
  if (f.rows * f.columns == 0) return;
  const MatrixThreads threads(f.columns, N);
  const std::int64_t per_block = kMatrixThreads / threads.across * kRowsPerThread;
  const Blocks blocks(threads.strips, std::min(blocks_for(f.rows, per_block), kMostBlocks));
  launch(F::kName, matrix_kernel<N, F>, Grid{blocks, threads.block()}, f);
}

// Runs f(i, c) for every element, in packs of 16 bytes of the element type. f must name its operands (operands.h).
template <class F>
void matrix_cuda(const F& f) {
  constexpr int N = kPackOf<F>;
  in_packs<N>(f) ? launch_matrix<N>(f) : launch_matrix<1>(f);
}

}  // namespace foldgrad
