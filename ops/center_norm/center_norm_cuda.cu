#include "engine/cuda/row_sums.h"
#include "ops/center_norm/center_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = center_norm_math;

// The row in registers.
template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) forward_kernel(CenterNormForward<T> p) {
  using Value = compute_t<T>;
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  Value x[Share::K][Share::N];
  share.load(p.x, x);

  Value sum = 0;
  share.each([&](int k, int e) { sum += x[k][e]; });
  const Value mu = share.sum(sum) / Value(p.columns);
  share.each_pack([&](int k) {
    Value gamma[Share::N], beta[Share::N];
    share.load_columns(p.gamma, k, gamma);
    share.load_columns(p.beta, k, beta);
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) x[k][e] = math::y(math::z(x[k][e], mu, p.k), gamma[e], beta[e]);
    share.store(p.y, k, x[k]);
  });
  if (share.thread == 0) p.mu[share.row] = mu;
}

// dx of the row. add(k, e, dy) is called for each of its elements.
template <class T, class Share, class Add>
__device__ __forceinline__ void backward_row(const CenterNormBackward<T>& p, const Share& share, const Add& add) {
  using Value = compute_t<T>;
  Value h[Share::K][Share::N];
  share.load(p.dy, h);
  Value sum_h = 0;
  share.each_pack([&](int k) {
    Value gamma[Share::N];
    share.load_columns(p.gamma, k, gamma);
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) {
      add(k, e, h[k][e]);
      h[k][e] *= gamma[e];
      sum_h += h[k][e];
    }
  });
  const Value mean_h = share.sum(sum_h) / Value(p.columns);
  share.each_pack([&](int k) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) h[k][e] = math::dx(h[k][e], mean_h, p.k);
    share.put(p.dx, k, h[k]);
  });
}

template <class T, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) backward_dx_kernel(CenterNormBackward<T> p) {
  const Share share(p.columns);
  if (share.row >= p.rows) return;  // a whole warp, and there are no barriers then
  backward_row(p, share, [](int, int, compute_t<T>) {});
}

// With parts of dgamma and dbeta.
template <class T, class Share>
__global__ void __launch_bounds__(kRowSumWarps* kWarp, 1) backward_kernel(ColumnSumParts<CenterNormBackward<T>> p) {
  using Value = compute_t<T>;
  Share share(p.f.columns);
  Value dgamma[Share::K][Share::N] = {}, dbeta[Share::K][Share::N] = {};
  each_row(share, p.f.rows, [&] {
    Value x[Share::K][Share::N];
    share.load(p.f.x, x);
    const Value mu = p.f.mu[share.row];
    backward_row(p.f, share, [&](int k, int e, Value dy) {
      dgamma[k][e] += math::dgamma(dy, math::z(x[k][e], mu, p.f.k));
      dbeta[k][e] += dy;
    });
  });
  write_row_sums(share, p, 0, dgamma);
  write_row_sums(share, p, 1, dbeta);
}

// One block per row, of any length.
template <class T>
__global__ void plain_forward_kernel(CenterNormForward<T> p) {
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

// One block per row, of any length.
template <class T>
__global__ void plain_backward_dx_kernel(CenterNormBackward<T> p) {
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

// In two kernels, where one would need too many registers or not all is wanted.
template <class T>
void backward_apart(const CenterNormBackward<T>& p) {
  const auto dx_by_share = [&](auto share) {
    using Share = typename decltype(share)::type;
    launch("center_norm backward of x", backward_dx_kernel<T, Share>, row_grid<Share>(p.rows), p);
  };
  const auto dx_plain = [&] {
    launch("center_norm backward of x", plain_backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
  };
  if (p.dx) with_row_share<T>(p.columns, aligned_for_packs(16, p.dy, p.dx.data, p.gamma), dx_by_share, dx_plain);
  if (p.dgamma || p.dbeta) packed_column_sums_cuda<kPackSize<T>>("center_norm backward of gamma and beta", p);
}

}  // namespace

template <class T>
void center_norm_cuda(const CenterNormForward<T>& p) {
  with_row_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.y, p.gamma, p.beta),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        launch("center_norm forward", forward_kernel<T, Share>, row_grid<Share>(p.rows), p);
      },
      [&] { launch("center_norm forward", plain_forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p); });
}
template <class T>
void center_norm_cuda(const CenterNormBackward<T>& p) {
  if (!p.dx || !p.dgamma || !p.dbeta) return backward_apart(p);
  with_summing_share<T>(
      p.columns, aligned_for_packs(16, p.x, p.dy, p.dx.data, p.gamma),
      [&](auto share) {
        using Share = typename decltype(share)::type;
        rows_and_column_sums_cuda("center_norm backward", p, backward_kernel<T, Share>);
      },
      [&] { backward_apart(p); });
}

FOLDGRAD_INSTANTIATE(center_norm_cuda, CenterNormForward);
FOLDGRAD_INSTANTIATE(center_norm_cuda, CenterNormBackward);

}  // namespace foldgrad
