#include "engine/cuda/cells.h"
#include "engine/cuda/reduce.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

// Computes columns c ... c + N - 1 of y_b.
template <class T, int N>
struct Pool {
  WeightedPoolForward<T> p;

  __device__ void operator()(std::int64_t, std::int64_t b, std::int64_t c) const {
    using Value = compute_t<T>;
    Value sums[N] = {};
    for (std::int64_t t = 0; t < p.steps; ++t) {
      const std::int64_t row = b * p.steps + t;
      const Value w = p.weight(row);
      const Pack<T, N> x = load_pack<N>(p.x + row * p.columns + c);
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e) sums[e] += w * Value(x.v[e]);
    }
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) sums[e] *= p.factor;        // [RED-3]
    store_pack(p.y + b * p.columns + c, rounded<T>(sums));  // [WP-1]
  }
};

// Uses one block per row of [batch * steps]; a thread takes packs of N.
template <class T, int N>
__global__ void backward_kernel(WeightedPoolBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  // There are at most as many steps as blocks, so a division in 32 bits suffices.
  const std::int64_t row = blockIdx.x, b = blockIdx.x / unsigned(p.steps);
  const T* dy = p.dy + b * p.columns;
  const std::int64_t step = std::int64_t(blockDim.x) * N;
  if (p.dw) {
    Value sum = 0;
    for (std::int64_t first = 0; first < p.columns; first += step) {
      const std::int64_t c = first + threadIdx.x * N;
      const bool wanted = c < p.columns;
      const Pack<T, N> of_dy = load_cached_pack<N>(dy + c, wanted),
                       of_x = load_pack<N>(p.x + row * p.columns + c, wanted);
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e) sum += p.share_of_dw(of_dy.v[e], of_x.v[e]);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) p.dw.put(row, sum);
  }
  if (!p.dx) return;
  for (std::int64_t first = 0; first < p.columns; first += step) {
    const std::int64_t c = first + threadIdx.x * N;
    const bool wanted = c < p.columns;
    const Pack<T, N> of_dy = load_cached_pack<N>(dy + c, wanted);
    Value values[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) values[e] = p.dx_of(row, of_dy.v[e]);
    put_pack(p.dx, row * p.columns + c, values, wanted);
  }
}

}  // namespace

template <class T>
void weighted_pool_cuda(const WeightedPoolForward<T>& p) {
  cells_in_packs_cuda<Pool>("weighted_pool forward", 1, p.batch, p.columns, p, p.x, p.y);
}
template <class T>
void weighted_pool_cuda(const WeightedPoolBackward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packed = p.columns % N == 0 && aligned_for_packs(16, p.x, p.dy, p.dx.data);
  launch("weighted_pool backward", packed ? backward_kernel<T, N> : backward_kernel<T, 1>,
         one_block_per_row<compute_t<T>>(p.batch * p.steps), p);
}

FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolForward);
FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolBackward);

}  // namespace foldgrad
