#include "engine/cuda/column_sums.h"
#include "engine/cuda/rows.h"
#include "ops/center_norm/center_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = center_norm_math;

// One block per row.
template <class T>
__global__ void forward_kernel(CenterNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  Value sum = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += Value(x[c]);
  const Value mu = block_sum(sum, scratch) / Value(p.columns);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.y[r * p.columns + c] = T(math::y(math::z(Value(x[c]), mu, p.k), Value(p.gamma[c]), Value(p.beta[c])));
  if (threadIdx.x == 0) p.mu[r] = mu;
}

// One block per row.
template <class T>
__global__ void backward_dx_kernel(CenterNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* dy = p.dy + r * p.columns;
  Value sum_h = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum_h += Value(dy[c]) * Value(p.gamma[c]);
  const Value mean_h = block_sum(sum_h, scratch) / Value(p.columns);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.dx.put(r * p.columns + c, math::dx(Value(dy[c]) * Value(p.gamma[c]), mean_h, p.k));
}

}  // namespace

template <class T>
void center_norm_cuda(const CenterNormForward<T>& p) {
  launch("center_norm forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}
template <class T>
void center_norm_cuda(const CenterNormBackward<T>& p) {
  if (p.dx) launch("center_norm backward of x", backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
  if (p.dgamma || p.dbeta) column_sums_cuda("center_norm backward of gamma and beta", p);
}

FOLDGRAD_INSTANTIATE(center_norm_cuda, CenterNormForward);
FOLDGRAD_INSTANTIATE(center_norm_cuda, CenterNormBackward);

}  // namespace foldgrad
