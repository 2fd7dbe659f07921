// The CUDA side of element-wise kernels (engine/cpu/elementwise.h). For .cu files.
#pragma once
#include "engine/cuda/operands.h"

namespace foldgrad {

constexpr int kElementwiseThreads = 256;  // not tuned
constexpr std::int64_t kElementwiseBlocks = 1 << 16;

inline Grid elementwise_grid(std::int64_t threads) {
  const std::int64_t blocks = blocks_for(threads, kElementwiseThreads);
  return {blocks < kElementwiseBlocks ? blocks : kElementwiseBlocks, dim3(kElementwiseThreads)};
}

// f(i) for i < f.n, an element at a time: for what is small, or reads at places of its own (cells.h). Grid-stride: any
// grid covers all n elements. Not unrolled, or the compiler would divide for the number of rounds, which is mostly 1.
template <class F>
__global__ void elementwise_kernel(F f) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < f.n; i += stride)
    run_element(f, PackBits<F>(f, i), i);
}

// f(k) for the N elements from i on.
template <int N, class F>
__device__ __forceinline__ void run_pack(const F& given, std::int64_t i) {
  OperandPacks<N> packs;
  F f = given;
  FetchElements<N> fetch{packs, i, 0, true};
  f.operands(fetch);
  start_elements(f, i, 0);
  const PackBits<F> bits(f, i);
  FOLDGRAD_UNROLL
  for (int k = 0; k < N; ++k) run_element(f, bits, k);
  F results = given;
  StoreResults<N> store{packs, i, true};
  results.operands(store);
}

// Elements after the last whole pack are computed one by one.
template <int N, class F>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_packs_kernel(F f) {
  const std::int64_t packs = f.n / N, stride = std::int64_t(gridDim.x) * blockDim.x;
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = first; i < packs; i += stride) run_pack<N>(f, i * N);
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = packs * N + first; i < f.n; i += stride) run_pack<1>(f, i);
}

// In packs of 16 bytes of the element type, if f names its operands (operands.h).
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

}  // namespace foldgrad
