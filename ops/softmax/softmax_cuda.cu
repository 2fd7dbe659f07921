#include "engine/cuda/rows.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

namespace math = softmax_math;

// The row in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) forward_kernel(SoftmaxForward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  const std::uint8_t* mask = p.mask ? p.mask + share.row / p.rows_per_mask * p.columns : nullptr;
  Value x[Share::K][Share::N];
  share.load(p.x, x);

  Value max = math::nothing<Value>(), sum = 0;
  share.each([&](int k, int e) {
    const std::int64_t c = share.column(k) + e;
    if (!share.inside(k) || (mask && !mask[c])) x[k][e] = math::nothing<Value>();
    max = Max{}(max, x[k][e]);
  });
  const Value m = math::shift(share.reduce(max, math::nothing<Value>(), Max{}));
  share.each([&](int k, int e) {
    x[k][e] = math::exponential(x[k][e], m);
    sum += x[k][e];
  });
  const Value scale = math::scale(share.sum(sum));
  share.each_pack([&](int k) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) x[k][e] = math::y(x[k][e], scale);
    share.store(p.y, k, x[k]);
  });
}

// The rows of y and dy in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) backward_kernel(SoftmaxBackward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  Value y[Share::K][Share::N], dy[Share::K][Share::N];
  share.load(p.y, y);
  share.load(p.dy, dy);

  Value sum = 0;
  share.each([&](int k, int e) { sum += dy[k][e] * y[k][e]; });
  const Value sum_dy_y = share.sum(sum);
  share.each_pack([&](int k) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) dy[k][e] = math::dx(y[k][e], dy[k][e], sum_dy_y);
    share.put(p.dx, k, dy[k]);
  });
}

// One block per row, of any length.
template <class T>
__global__ void plain_forward_kernel(SoftmaxForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  T* y = p.y + r * p.columns;
  const std::uint8_t* mask = p.mask ? p.mask + r / p.rows_per_mask * p.columns : nullptr;
  const auto attended = [&](std::int64_t c) { return !mask || mask[c] ? Value(x[c]) : math::nothing<Value>(); };

  Value max = math::nothing<Value>(), sum = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) max = Max{}(max, attended(c));
  const Value m = math::shift(block_max(max, scratch, math::nothing<Value>()));
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += math::exponential(attended(c), m);
  const Value scale = math::scale(block_sum(sum, scratch));
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    y[c] = T(math::y(math::exponential(attended(c), m), scale));
}

// One block per row, of any length.
template <class T>
__global__ void plain_backward_kernel(SoftmaxBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t begin = blockIdx.x * p.columns, end = begin + p.columns;

  Value sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += Value(p.dy[i]) * Value(p.y[i]);
  const Value sum_dy_y = block_sum(sum, scratch);
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    p.dx.put(i, math::dx(Value(p.y[i]), Value(p.dy[i]), sum_dy_y));
}

}  // namespace

template <class T>
void softmax_cuda(const SoftmaxForward<T>& p) {
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.y),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("softmax forward", forward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("softmax forward", plain_forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}
template <class T>
void softmax_cuda(const SoftmaxBackward<T>& p) {
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.y, p.dy, p.dx.data),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("softmax backward", backward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("softmax backward", plain_backward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}

FOLDGRAD_INSTANTIATE(softmax_cuda, SoftmaxForward);
FOLDGRAD_INSTANTIATE(softmax_cuda, SoftmaxBackward);

}  // namespace foldgrad
