// The CUDA side of element-wise kernels (engine/cpu/elementwise.h). For .cu files.
#pragma once
#include "engine/cuda/launch.h"

namespace foldgrad {

template <class F>
struct Elementwise {
  F f;
  std::int64_t n;
};

// Grid-stride: any grid covers all n elements.
template <class F>
__global__ void elementwise_kernel(Elementwise<F> p) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += stride) p.f(i);
}

constexpr int kElementwiseThreads = 256;  // not tuned
constexpr std::int64_t kElementwiseBlocks = 1 << 16;

template <class F>
void elementwise_cuda(const char* name, std::int64_t n, const F& f) {
  const std::int64_t blocks = blocks_for(n, kElementwiseThreads);
  const Grid grid{blocks < kElementwiseBlocks ? blocks : kElementwiseBlocks, dim3(kElementwiseThreads)};
  launch(name, elementwise_kernel<F>, grid, Elementwise<F>{f, n});
}

// i % columns. A division of 32 bits costs a fraction of one of 64.
__device__ inline std::int64_t column(std::int64_t i, std::int64_t columns) {
  const bool small = i <= 0xFFFFFFFFll && columns <= 0xFFFFFFFFll;
  return small ? std::int64_t(std::uint32_t(i) % std::uint32_t(columns)) : i % columns;
}

// f(i, c), where c is the column of element i.
template <class F>
struct WithColumn {
  F f;
  std::int64_t columns;

  __device__ void operator()(std::int64_t i) const { f(i, column(i, columns)); }
};

template <class F>
void elementwise_columns_cuda(const char* name, std::int64_t n, std::int64_t columns, const F& f) {
  elementwise_cuda(name, n, WithColumn<F>{f, columns});
}

}  // namespace foldgrad
