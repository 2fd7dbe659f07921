#include "engine/cuda/row_sums.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = rms_norm_math;

// The row in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) forward_kernel(RmsNormForward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  Value x[Share::K][Share::N];
  share.load(p.x, x);

  const int counted = int(p.k);
  Value squares = 0;
  share.each([&](int k, int e) { squares += share.column(k) + e < counted ? x[k][e] * x[k][e] : Value(0); });
  squares = share.sum(squares);
  const Value rrms = math::rrms(squares / Value(p.k), p.eps, p.eps_outside);
  share.each_pack([&](int k) {
    Value gamma[Share::N];
    share.load_columns(p.gamma, k, gamma);
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) x[k][e] = math::y(math::xhat(x[k][e], rrms), gamma[e]);
    share.store(p.y, k, x[k]);
  });
  if (share.thread == 0) p.finish(share.row, squares);
}

// dx of the row, whose x and dy are in registers. add(k, e, dy, xhat) is called for each of its elements.
template <class T, class Share, class Add>
__device__ __forceinline__ void backward_row(const RmsNormBackward<T>& p, const Share& share, const Add& add) {
  using Value = compute_t<T>;
  Value xhat[Share::K][Share::N], h[Share::K][Share::N];
  share.load(p.x, xhat);
  share.load(p.dy, h);
  const Value rrms = p.rrms[share.row];

  Value sum_h_xhat = 0;
  share.each_pack([&](int k) {
    Value gamma[Share::N];
    share.load_columns(p.gamma, k, gamma);
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) {
      xhat[k][e] = math::xhat(xhat[k][e], rrms);
      add(k, e, h[k][e], xhat[k][e]);
      h[k][e] *= gamma[e];
      sum_h_xhat += h[k][e] * xhat[k][e];
    }
  });
  const int counted = int(p.k);
  const Value along = share.sum(sum_h_xhat) * p.weight[share.row];
  share.each_pack([&](int k) {
    const int left = counted - share.column(k);
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) h[k][e] = math::dx(h[k][e], xhat[k][e], rrms, e < left ? along : Value(0));
    share.put(p.dx, k, h[k]);
  });
}

template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) backward_dx_kernel(RmsNormBackward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  backward_row(p, share, [](int, int, Value, Value) {});
}

// With parts of dgamma.
template <class T, class Share>
__global__ void __launch_bounds__(kRowSumWarps* kWarp, 1) backward_kernel(ColumnSumParts<RmsNormBackward<T>> p) {
  using Value = compute_t<T>;
  Share share(p.f.columns);
  Value dgamma[Share::K][Share::N] = {};
  each_row(share, p.f.rows, [&] {
    backward_row(p.f, share, [&](int k, int e, Value dy, Value xhat) { dgamma[k][e] += math::dgamma(dy, xhat); });
  });
  write_row_sums(share, p, 0, dgamma);
}

// One block per row, of any length.
template <class T>
__global__ void plain_forward_kernel(RmsNormForward<T> p) {
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

// One block per row, of any length.
template <class T>
__global__ void plain_backward_dx_kernel(RmsNormBackward<T> p) {
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

// In two kernels, where one would need too many registers or not all is wanted.
template <class T>
void backward_apart(const RmsNormBackward<T>& p) {
  const auto dx_by_share = [&](auto share) {
    using Share = typename decltype(share)::type;
    launch("rms_norm backward of x", backward_dx_kernel<T, Share>, row_grid<Share>(p.rows), p);
  };
  const auto dx_plain = [&] {
    launch("rms_norm backward of x", plain_backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
  };
  if (p.dx) with_row_share<T>(p.columns, aligned_for_packs(16, p.x, p.dy, p.dx.data, p.gamma), dx_by_share, dx_plain);
  if (p.dgamma) packed_column_sums_cuda<kPackSize<T>>("rms_norm backward of gamma", p);
}

}  // namespace

template <class T>
void rms_norm_cuda(const RmsNormForward<T>& p) {
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.y, p.gamma),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("rms_norm forward", forward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("rms_norm forward", plain_forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}

template <class T>
void rms_norm_cuda(const RmsNormBackward<T>& p) {
  if (!p.dx || !p.dgamma) return backward_apart(p);
  with_summing_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.dy, p.dx.data, p.gamma),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        rows_and_column_sums_cuda("rms_norm backward", p, backward_kernel<T, Share>);
      },
      [&] { backward_apart(p); });
}

FOLDGRAD_INSTANTIATE(rms_norm_cuda, RmsNormForward);
FOLDGRAD_INSTANTIATE(rms_norm_cuda, RmsNormBackward);

}  // namespace foldgrad
