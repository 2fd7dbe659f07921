#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/center_norm/center_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = center_norm_math;

template <class T>
void forward_row(const CenterNormForward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *gamma = p.gamma, *beta = p.beta;
  T* y = p.y + r * columns;
  const Value mu = sum_cpu<Value>(columns, [x](std::int64_t c) { return Value(x[c]); }) / Value(columns);
  const Value k = p.k;
  p.mu[r] = mu;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    y[c] = T(math::y(math::z(Value(x[c]), mu, k), Value(gamma[c]), Value(beta[c])));
}

// The row's shares of dgamma and dbeta, [2, columns], and its dx.
template <class T>
void backward_row(const CenterNormBackward<T>& p, std::int64_t r, compute_t<T>* own) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *dy = p.dy + r * columns, *gamma = p.gamma;
  Value *dgamma = own, *dbeta = own + columns;
  const Value mu = p.mu[r], k = p.k;
  const Value sum_h = sum_cpu<Value>(columns, [=](std::int64_t c) {
    const Value dy_rc = dy[c];
    dgamma[c] += math::dgamma(dy_rc, math::z(Value(x[c]), mu, k));
    dbeta[c] += dy_rc;
    return dy_rc * Value(gamma[c]);
  });
  if (!p.dx) return;
  const Value mean_h = sum_h / Value(columns);
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) dx.put(c, math::dx(Value(dy[c]) * Value(gamma[c]), mean_h, k));
}

}  // namespace

template <class T>
void center_norm_cpu(const CenterNormForward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { forward_row(p, r); });
}
template <class T>
void center_norm_cpu(const CenterNormBackward<T>& p) {
  column_sums_cpu(p, [&p](std::int64_t r, compute_t<T>* own) { backward_row(p, r, own); });
}

FOLDGRAD_INSTANTIATE(center_norm_cpu, CenterNormForward);
FOLDGRAD_INSTANTIATE(center_norm_cpu, CenterNormBackward);

}  // namespace foldgrad
