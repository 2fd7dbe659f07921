// Runs element-wise kernels over [batch, rows, columns] that compute addresses from all three indices. For other
// kernels, matrix_cuda (elementwise.h) is faster. The grid has the same three axes, so that no thread has to divide an
// index; a 64-bit division takes about a hundred instructions. This header is for .cu files.
#pragma once
#include "engine/cuda/pack.h"

namespace foldgrad {

constexpr int kCellThreads = 256;  // not tuned

template <class F>
struct Cells {
  F f;
  std::int64_t batch, rows, columns;
};

// The loops are not unrolled: most run once, and an unrolled loop begins with a division, to count its iterations.
template <int N, class F>
__global__ void __launch_bounds__(kCellThreads, 4) cells_kernel(Cells<F> p) {
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (c >= p.columns) return;
  const std::int64_t first = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y;
  const std::int64_t step = std::int64_t(gridDim.y) * blockDim.y;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t s = blockIdx.z; s < p.batch; s += gridDim.z) {
    FOLDGRAD_NO_UNROLL
    for (std::int64_t r = first; r < p.rows; r += step) p.f(s, r, c);
  }
}

// Calls f(s, r, c) for every pack of N columns, where c is the pack's first column; `columns` must be a multiple of N.
// Neighbouring threads take neighbouring packs.
template <int N = 1, class F>
void cells_cuda(const char* name, std::int64_t batch, std::int64_t rows, std::int64_t columns, const F& f) {
  if (batch == 0 || rows == 0 || columns == 0) return;
  const std::int64_t packs = columns / N;
  int across = 1, down = 1;
  while (across < kCellThreads && across < packs) across *= 2;
  while (across * down < kCellThreads && down < rows) down *= 2;
  const Blocks blocks(blocks_for(packs, across), std::min(blocks_for(rows, down), kMostBlocks),
                      std::min(batch, kMostBlocks));  // the kernel loops over the remaining rows and matrices
  const Grid grid{blocks, dim3(unsigned(across), unsigned(down))};
  launch(name, cells_kernel<N, F>, grid, Cells<F>{f, batch, rows, columns});
}

// Calls cells_cuda() with F<T, N>{p}. Uses packs of 16 bytes if the rows and all addresses in `at` are aligned for
// them; otherwise, N is 1.
template <template <class, int> class F, template <class> class P, class T, class... Pointers>
void cells_in_packs_cuda(const char* name, std::int64_t batch, std::int64_t rows, std::int64_t columns, const P<T>& p,
                         const Pointers*... at) {
  constexpr int N = kPackSize<T>;
  if (columns % N == 0 && aligned_for_packs(16, at...))
    cells_cuda<N>(name, batch, rows, columns, F<T, N>{p});
  else
    cells_cuda(name, batch, rows, columns, F<T, 1>{p});
}

}  // namespace foldgrad
