#include "engine/cuda/row_op.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

constexpr int kMostThreads = 512;  // threads per row; not tuned

// Uses one block per row.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads) backward_kernel(CrossEntropyBackward<T> p) {
  using Value = compute_t<T>;
  const std::int64_t r = blockIdx.x;
  const bool counts = p.targets.counts(r);
  const Value m = p.max[r], sum_inverse = Value(1) / p.sum[r], weight = *p.dloss * *p.weight;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += std::int64_t(blockDim.x) * N) {
    const Pack<T, N> z = load_own_pack<N>(p.logits + r * p.columns + c);
    Value dz[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      const Value exponential = cross_entropy_math::exponential(Value(z.v[e]), m);
      dz[e] = counts ? cross_entropy_math::dz(exponential, sum_inverse, p.q_of(r, c + e), weight) : Value(0);
    }
    put_pack(p.dlogits, r * p.columns + c, dz);
  }
}

}  // namespace

template <class T>
void cross_entropy_cuda(const CrossEntropyBackward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packed = p.columns % N == 0 && aligned_for_packs(16, p.logits, p.dlogits.data);
  const std::int64_t threads = blocks_for(packed ? p.columns / N : p.columns, kWarp) * kWarp;
  const Grid grid{p.rows, dim3(unsigned(threads < kMostThreads ? threads : kMostThreads))};
  launch("cross_entropy backward", packed ? backward_kernel<T, N> : backward_kernel<T, 1>, grid, p);
}

FOLDGRAD_INSTANTIATE(row_op_cuda, CrossEntropyForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, CrossEntropyTotal);
FOLDGRAD_INSTANTIATE(cross_entropy_cuda, CrossEntropyBackward);

}  // namespace foldgrad
