#include "engine/cuda/rows.h"
#include "ops/scale_norm/scale_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = scale_norm_math;

// One block per row.
template <class T>
__global__ void forward_kernel(ScaleNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  Value squares = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) squares += Value(x[c]) * Value(x[c]);
  const Value rnorm = math::rnorm(block_sum(squares, scratch), p.eps), g_rnorm = p.gain() * rnorm;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.y[r * p.columns + c] = T(math::y(Value(x[c]), g_rnorm));
  if (threadIdx.x == 0) p.rnorm[r] = rnorm;
}

// One block per row.
template <class T>
__global__ void backward_kernel(ScaleNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T *x = p.x + r * p.columns, *dy = p.dy + r * p.columns;
  const Value rnorm = p.rnorm[r], g_rnorm = p.gain() * rnorm;
  Value dy_u = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) dy_u += Value(dy[c]) * math::u(Value(x[c]), rnorm);
  dy_u = block_sum(dy_u, scratch);
  if (threadIdx.x == 0) p.dy_u[r] = dy_u;  // [SN-3]
  if (!p.dx) return;
  const Value along = math::along(dy_u, rnorm, p.eps);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.dx.put(r * p.columns + c, math::dx(Value(dy[c]), math::u(Value(x[c]), rnorm), g_rnorm, along));
}

}  // namespace

template <class T>
void scale_norm_cuda(const ScaleNormForward<T>& p) {
  launch("scale_norm forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}
template <class T>
void scale_norm_cuda(const ScaleNormBackward<T>& p) {
  launch("scale_norm backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}

FOLDGRAD_INSTANTIATE(scale_norm_cuda, ScaleNormForward);
FOLDGRAD_INSTANTIATE(scale_norm_cuda, ScaleNormBackward);

}  // namespace foldgrad
