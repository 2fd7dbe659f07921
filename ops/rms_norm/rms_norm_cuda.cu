#include "engine/cuda/column_sums.h"
#include "engine/cuda/rows.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = rms_norm_math;

// One block per row.
template <class T>
__global__ void forward_kernel(RmsNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  T* y = p.y + r * p.columns;

  Value squares = 0;
  for (std::int64_t c = threadIdx.x; c < p.k; c += blockDim.x) squares += Value(x[c]) * Value(x[c]);
  squares = block_sum(squares, scratch);
  const Value rrms = math::rrms(squares / Value(p.k), p.eps, p.eps_outside);
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    y[c] = T(math::y(math::xhat(Value(x[c]), rrms), Value(p.gamma[c])));
  if (threadIdx.x == 0) p.finish(r, squares);
}

// One block per row.
template <class T>
__global__ void backward_dx_kernel(RmsNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* dy = p.dy + r * p.columns;

  Value sum_h_xhat = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    sum_h_xhat += Value(dy[c]) * Value(p.gamma[c]) * p.xhat(r, c);
  const Value along = block_sum(sum_h_xhat, scratch) * p.weight[r];
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.dx.put(r * p.columns + c,
             math::dx(Value(dy[c]) * Value(p.gamma[c]), p.xhat(r, c), p.rrms[r], c < p.k ? along : Value(0)));
}

}  // namespace

template <class T>
void rms_norm_cuda(const RmsNormForward<T>& p) {
  launch("rms_norm forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}
template <class T>
void rms_norm_cuda(const RmsNormBackward<T>& p) {
  if (p.dx) launch("rms_norm backward of x", backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
  if (p.dgamma) column_sums_cuda("rms_norm backward of gamma", p);
}

FOLDGRAD_INSTANTIATE(rms_norm_cuda, RmsNormForward);
FOLDGRAD_INSTANTIATE(rms_norm_cuda, RmsNormBackward);

}  // namespace foldgrad
