// The moments of a sum by the kernel that forms it: bias_dropout_residual with channel_moments_cuda.h. For .cu files.
#pragma once
#include "ops/channel_norm/channel_moments_cuda.h"
#include "ops/dropout/branch_cuda.h"

namespace foldgrad {

// As RowsInMemory, of rows that are formed. The packs are the caller's: members that point to a member would keep both
// out of registers.
template <int N, class T>
class FormedRows {
 public:
  bool wanted;

  __device__ __forceinline__ FormedRows(const BiasDropoutResidualForward<T>& sum, OperandPacks<N>& packs,
                                        std::int64_t c)
      : wanted(c < sum.columns), in_memory_{sum, {}}, sum_(in_memory_), packs_(packs), c_(c) {
    FetchColumns<N> columns{packs_, c, wanted};
    sum_.operands(columns);
  }
  __device__ __forceinline__ Pack<T, N> take(std::int64_t r, bool) {
    const Pack<T, N> formed = peek(r);
    store_pack(in_memory_.p.y + place(r), formed, wanted);
    return formed;
  }
  __device__ __forceinline__ Pack<T, N> peek(std::int64_t r) {
    BranchForward<T> f = sum_;
    FetchElements<N> fetch{packs_, place(r), r, wanted};
    f.operands(fetch);
    if (wanted) start_pack(f, place(r));
    FOLDGRAD_UNROLL
    for (int e = 0; e < N && wanted; ++e) f(e, e);
    Pack<T, N> formed = {};
    FOLDGRAD_UNROLL
    for (int e = 0; e < N && wanted; ++e) formed.v[e] = f.p.y[e];
    return formed;
  }

 private:
  __device__ std::int64_t place(std::int64_t r) const { return r * sum_.p.columns + c_; }

  BranchForward<T> in_memory_, sum_;  // with its pointers to memory, and to packs of the columns
  OperandPacks<N>& packs_;
  std::int64_t c_;
};

template <class T, class Then>
struct SumMoments {
  BiasDropoutResidualForward<T> sum;
  ChannelSumsThen<ChannelMomentsPass<T>, Then> of;
};

template <int N, int K, class T, class Then>
__global__ void __launch_bounds__(kMatrixThreads, 1) sum_moments_kernel(SumMoments<T, Then> task) {
  OperandPacks<N> packs;
  FormedRows<N, T> x(task.sum, packs, (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N);
  moments<N, K>(task.of, x);
}

template <class T, class Then>
void sum_moments_cuda(const BiasDropoutResidualForward<T>& sum, const ChannelMomentsPass<T>& p, const Then& then) {
  with_moments(p, aligned_operands<kPackSize<T>>(BranchForward<T>{sum, {}}), [&](auto N, auto K) {
    const Grid grid = channel_grid<N, K>(p.columns, p.rows);
    launch("bias_dropout_residual forward, channel_norm moments", sum_moments_kernel<N, K, T, Then>, grid,
           SumMoments<T, Then>{sum, {p, then, arrivals(1 + grid.blocks.x)}});
  });
}

}  // namespace foldgrad
