#include "engine/cuda/column_sums.h"
#include "engine/cuda/rows.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = layer_norm_math;

// One block per row.
template <class T>
__global__ void forward_kernel(LayerNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  T* y = p.y + r * p.columns;

  Value sum = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += Value(x[c]);
  const Value mu = block_sum(sum, scratch) / Value(p.columns);  // [LN-1]
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    squares += math::squared_deviation(Value(x[c]), mu);
  const Value rstd = math::rstd(block_sum(squares, scratch) / Value(p.columns), p.eps);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    y[c] = T(math::y(math::xhat(Value(x[c]), mu, rstd), Value(p.gamma[c]), Value(p.beta[c])));
  if (threadIdx.x == 0) {
    p.mu[r] = mu;
    p.rstd[r] = rstd;
  }
}

// One block per row.
template <class T>
__global__ void backward_dx_kernel(LayerNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* dy = p.dy + r * p.columns;

  Value sum_h = 0, sum_h_xhat = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) {
    const Value h = Value(dy[c]) * Value(p.gamma[c]);
    sum_h += h;
    sum_h_xhat += h * p.xhat(r, c);
  }
  const Value mean_h = block_sum(sum_h, scratch) / Value(p.columns);
  const Value mean_h_xhat = block_sum(sum_h_xhat, scratch) / Value(p.columns);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.dx.put(r * p.columns + c,
             math::dx(Value(dy[c]) * Value(p.gamma[c]), p.xhat(r, c), p.rstd[r], mean_h, mean_h_xhat));
}

}  // namespace

template <class T>
void layer_norm_cuda(const LayerNormForward<T>& p) {
  launch("layer_norm forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}
template <class T>
void layer_norm_cuda(const LayerNormBackward<T>& p) {
  if (p.dx) launch("layer_norm backward of x", backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
  if (p.dgamma || p.dbeta) column_sums_cuda("layer_norm backward of gamma and beta", p);
}

FOLDGRAD_INSTANTIATE(layer_norm_cuda, LayerNormForward);
FOLDGRAD_INSTANTIATE(layer_norm_cuda, LayerNormBackward);

}  // namespace foldgrad
