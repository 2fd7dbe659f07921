#include "engine/cuda/cells.h"
#include "engine/cuda/rows.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

// Column c of y_b.
template <class T>
struct Pool {
  WeightedPoolForward<T> p;

  __device__ void operator()(std::int64_t, std::int64_t b, std::int64_t c) const {
    using Value = compute_t<T>;
    Value sum = 0;
    for (std::int64_t t = 0; t < p.steps; ++t) {
      const std::int64_t row = b * p.steps + t;
      sum += Value(p.w[row]) * Value(p.x[row * p.columns + c]);
    }
    p.y[b * p.columns + c] = T(sum);  // [WP-1]
  }
};

// One block per row of [batch * steps].
template <class T>
__global__ void backward_kernel(WeightedPoolBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();                                 // one per warp
  const std::int64_t row = blockIdx.x, b = blockIdx.x / unsigned(p.steps);  // of which there are more blocks
  if (p.dw) {
    Value sum = 0;
    for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += p.share_of_dw(b, row, c);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) p.dw.put(row, sum);
  }
  if (!p.dx) return;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) p.dx.put(row * p.columns + c, p.dx_of(b, row, c));
}

}  // namespace

template <class T>
void weighted_pool_cuda(const WeightedPoolForward<T>& p) {
  cells_cuda("weighted_pool forward", 1, p.batch, p.columns, Pool<T>{p});
}
template <class T>
void weighted_pool_cuda(const WeightedPoolBackward<T>& p) {
  launch("weighted_pool backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.batch * p.steps), p);
}

FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolForward);
FOLDGRAD_INSTANTIATE(weighted_pool_cuda, WeightedPoolBackward);

}  // namespace foldgrad
