// Element-wise kernels over a matrix [rows, columns] that also need the column (engine/cpu/elementwise.h), on CUDA. A
// thread keeps its columns and goes over rows, so that no element costs a division and gains and biases are loaded
// once. For .cu files.
#pragma once
#include "engine/cuda/operands.h"

namespace foldgrad {

constexpr int kMatrixThreads = 256;                   // not tuned
constexpr std::int64_t kRowsPerThread = 4;            // if there are enough; not tuned
constexpr std::int64_t kMostMatrixRowBlocks = 65535;  // of a grid in y; what is beyond is taken in turns

// A block of kMatrixThreads: `across` of them beside each other, each with N columns, and the others below.
struct MatrixThreads {
  std::int64_t across;
  std::int64_t strips;  // blocks that cover a row

  MatrixThreads(std::int64_t columns, int N) : across(1) {
    const std::int64_t packs = (columns + N - 1) / N;
    while (across < 32 && across < packs) across *= 2;
    strips = (packs + across - 1) / across;
  }
  dim3 block() const { return {unsigned(across), unsigned(kMatrixThreads / across)}; }
};

template <int N, class F>
__global__ void __launch_bounds__(kMatrixThreads, 4) matrix_kernel(F p) {
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  OperandPacks<N> packs;
  F with_columns = p;
  FetchColumns<N> columns{packs, c, wanted};
  with_columns.operands(columns);
  const std::int64_t stride = std::int64_t(gridDim.y) * blockDim.y;
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < p.rows; r += stride) {
    const std::int64_t i = r * p.columns + c;
    F f = with_columns;
    FetchElements<N> fetch{packs, i, r, wanted};
    f.operands(fetch);
    if (wanted) start_elements(f, i, r);
    const PackBits<F> bits(f, i);
    FOLDGRAD_UNROLL
    for (int k = 0; k < N && wanted; ++k) run_element(f, bits, k, std::int64_t(k));
    F results = p;
    StoreResults<N> store{packs, i, wanted};
    results.operands(store);
  }
}

template <int N, class F>
void launch_matrix(const F& f) {
  if (f.rows * f.columns == 0) return;
  const MatrixThreads threads(f.columns, N);
  const std::int64_t per_block = kMatrixThreads / threads.across * kRowsPerThread;
  const std::int64_t blocks = (f.rows + per_block - 1) / per_block;
  const Grid grid{Blocks(threads.strips, blocks < kMostMatrixRowBlocks ? blocks : kMostMatrixRowBlocks),
                  threads.block()};
  launch(F::kName, matrix_kernel<N, F>, grid, f);
}

// f(i, c) for every element, in packs of 16 bytes of the element type. f names its operands (operands.h).
template <class F>
void matrix_cuda(const F& f) {
  constexpr int N = kPackOf<F>;
  if (f.columns % N == 0 && aligned_operands<N>(f))
    launch_matrix<N>(f);
  else
    launch_matrix<1>(f);
}

}  // namespace foldgrad
