// The CUDA side of element-wise kernels (elementwise_cpu.h). For .cu files.
#pragma once
#include "engine/launch.h"

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
constexpr unsigned kElementwiseBlocks = 1u << 16;

template <class F>
void elementwise_cuda(const char* name, std::int64_t n, const F& f) {
  const std::int64_t blocks = (n + kElementwiseThreads - 1) / kElementwiseThreads;
  const Grid grid{dim3(blocks < kElementwiseBlocks ? unsigned(blocks) : kElementwiseBlocks), dim3(kElementwiseThreads)};
  launch(name, elementwise_kernel<F>, grid, Elementwise<F>{f, n});
}

}  // namespace foldgrad
