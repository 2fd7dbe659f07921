// The CUDA side of engine/cpu/column_sums.h, for the same parameter structs. For .cu files.
#pragma once
#include "engine/cuda/reduce.h"

namespace foldgrad {

constexpr int kColumnSumRows = 8;  // rows that a block of 32 columns reads at once; not tuned

// One block per 32 columns. Neighbouring threads read neighbouring columns; the partial sums of the 8 warps are added
// in their order.
template <class F>
__global__ void column_sums_kernel(F p) {
  using Value = typename F::Value;
  Value* partials = dynamic_shared<Value>();  // [kColumnSumRows, kSums, 32]
  const std::int64_t c = std::int64_t(blockIdx.x) * kWarp + threadIdx.x;
  Value sums[F::kSums] = {};
  if (c < p.columns)
    for (std::int64_t r = threadIdx.y; r < p.rows; r += kColumnSumRows) p.add(r, c, sums);
  for (int k = 0; k < F::kSums; ++k) partials[(threadIdx.y * F::kSums + k) * kWarp + threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y == 0 && c < p.columns) {
    for (int w = 1; w < kColumnSumRows; ++w)
      for (int k = 0; k < F::kSums; ++k) sums[k] += partials[(w * F::kSums + k) * kWarp + threadIdx.x];
    p.put(c, sums);
  }
}

template <class F>
void column_sums_cuda(const char* name, const F& p) {
  const Grid grid{blocks_for(p.columns, kWarp), dim3(kWarp, kColumnSumRows),
                  kColumnSumRows * F::kSums * kWarp * sizeof(typename F::Value)};
  launch(name, column_sums_kernel<F>, grid, p);
}

}  // namespace foldgrad
