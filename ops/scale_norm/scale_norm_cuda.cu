#include "engine/cuda/rows.h"
#include "ops/scale_norm/scale_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = scale_norm_math;

// The row in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) forward_kernel(ScaleNormForward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  Value x[Share::K][Share::N];
  share.load(p.x, x);

  Value squares = 0;
  share.each([&](int k, int e) { squares += x[k][e] * x[k][e]; });
  const Value rnorm = math::rnorm(share.sum(squares), p.eps), g_rnorm = p.gain() * rnorm;
  share.each_pack([&](int k) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) x[k][e] = math::y(x[k][e], g_rnorm);
    share.store(p.y, k, x[k]);
  });
  if (share.thread == 0) p.rnorm[share.row] = rnorm;
}

// The row in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) backward_kernel(ScaleNormBackward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  Value u[Share::K][Share::N], dy[Share::K][Share::N];
  share.load(p.x, u);
  share.load(p.dy, dy);

  const Value rnorm = p.rnorm[share.row], g_rnorm = p.gain() * rnorm;
  Value dy_u = 0;
  share.each([&](int k, int e) {
    u[k][e] = math::u(u[k][e], rnorm);
    dy_u += dy[k][e] * u[k][e];
  });
  dy_u = share.sum(dy_u);
  if (share.thread == 0) p.dy_u[share.row] = dy_u;  // [SN-3]
  if (!p.dx) return;
  const Value along = math::along(dy_u, rnorm, p.eps);
  share.each_pack([&](int k) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) dy[k][e] = math::dx(dy[k][e], u[k][e], g_rnorm, along);
    share.put(p.dx, k, dy[k]);
  });
}

// One block per row, of any length.
template <class T>
__global__ void plain_forward_kernel(ScaleNormForward<T> p) {
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

// One block per row, of any length.
template <class T>
__global__ void plain_backward_kernel(ScaleNormBackward<T> p) {
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
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.y),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("scale_norm forward", forward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("scale_norm forward", plain_forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}
template <class T>
void scale_norm_cuda(const ScaleNormBackward<T>& p) {
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.dy, p.dx.data),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("scale_norm backward", backward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("scale_norm backward", plain_backward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}

FOLDGRAD_INSTANTIATE(scale_norm_cuda, ScaleNormForward);
FOLDGRAD_INSTANTIATE(scale_norm_cuda, ScaleNormBackward);

}  // namespace foldgrad
