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

template <class F>
struct Elementwise {
  F f;
  std::int64_t n;
};

// f(i) for i < n, an element at a time: for what is small, or reads at places of its own (cells.h). Grid-stride: any
// grid covers all n elements. Not unrolled, or the compiler would divide for the number of rounds, which is mostly 1.
template <class F>
__global__ void elementwise_kernel(Elementwise<F> p) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += stride) run_element(p.f, i);
}
template <class F>
void elementwise_cuda(const char* name, std::int64_t n, const F& f) {
  launch(name, elementwise_kernel<F>, elementwise_grid(n), Elementwise<F>{f, n});
}

// f(k) for the N elements from i on.
template <int N, class F>
__device__ __forceinline__ void run_pack(const F& given, std::int64_t i) {
  OperandPacks<N> packs;
  F f = given;
  FetchElements<N> fetch{packs, i, 0, true};
  f.operands(fetch);
  start_pack(f, i);
  FOLDGRAD_UNROLL
  for (int k = 0; k < N; ++k) run_element(f, k);
  F results = given;
  StoreResults<N> store{packs, i, true};
  results.operands(store);
}

// Elements after the last whole pack are computed one by one.
template <int N, class F>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_packs_kernel(Elementwise<F> p) {
  const std::int64_t packs = p.n / N, stride = std::int64_t(gridDim.x) * blockDim.x;
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = first; i < packs; i += stride) run_pack<N>(p.f, i * N);
  FOLDGRAD_NO_UNROLL
  for (std::int64_t i = packs * N + first; i < p.n; i += stride) run_pack<1>(p.f, i);
}

// f(i) for i < n, in packs of N, which is 16 bytes of the widest operand. f names its operands (operands.h).
template <int N, class F>
void elementwise_packs_cuda(const char* name, std::int64_t n, const F& f) {
  if (aligned_operands<N>(f))
    launch(name, elementwise_packs_kernel<N, F>, elementwise_grid((n + N - 1) / N), Elementwise<F>{f, n});
  else
    launch(name, elementwise_packs_kernel<1, F>, elementwise_grid(n), Elementwise<F>{f, n});
}

template <class F>
void elementwise_cuda(const F& f) {
  if constexpr (HasOperands<F>::value)
    elementwise_packs_cuda<kPackOf<F>>(F::kName, f.n, f);
  else
    elementwise_cuda(F::kName, f.n, f);
}

}  // namespace foldgrad
