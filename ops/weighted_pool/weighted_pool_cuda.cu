#include "engine/cuda/elementwise.h"
#include "engine/cuda/rows.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

// One element of y.
template <class T>
struct Pool {
  WeightedPoolForward<T> p;

  __device__ void operator()(std::int64_t i) const {
    using Value = compute_t<T>;
    const std::int64_t b = i / p.columns, c = i % p.columns;
    Value sum = 0;
    for (std::int64_t t = 0; t < p.steps; ++t) {
      const std::int64_t row = b * p.steps + t;
      sum += Value(p.w[row]) * Value(p.x[row * p.columns + c]);
    }
    p.y[i] = T(sum);  // [WP-1]
  }
};

// One block per row of [batch * steps].
template <class T>
__global__ void backward_kernel(WeightedPoolBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t row = blockIdx.x;
  if (p.dw) {
    Value sum = 0;
    for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += p.share_of_dw(row, c);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) p.dw.put(row, sum);
  }
  if (!p.dx) return;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) p.dx.put(row * p.columns + c, p.dx_of(row, c));
}

}  // namespace

template <class T>
void weighted_pool_cuda(const WeightedPoolForward<T>& p) {
  elementwise_cuda("weighted_pool forward", p.batch * p.columns, Pool<T>{p});
}
template <class T>
void weighted_pool_cuda(const WeightedPoolBackward<T>& p) {
  launch("weighted_pool backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.batch * p.steps), p);
}

FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolForward);
FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolBackward);

}  // namespace foldgrad
