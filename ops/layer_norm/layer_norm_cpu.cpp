#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = layer_norm_math;

// Two passes over the row, which is in the cache by then: E[x^2] - E[x]^2 would lose all digits of rows far from zero.
template <class T>
void forward_rows(const LayerNormForward<T>& p, std::int64_t begin, std::int64_t end) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = p.x + r * columns;
    p.mu[r] = sum_cpu<Value>(columns, [x](std::int64_t c) { return Value(x[c]); }) / Value(columns);  // [LN-1]
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = p.x + r * columns;
    const Value mu = p.mu[r];
    const Value squares =
        sum_cpu<Value>(columns, [x, mu](std::int64_t c) { return math::squared_deviation(Value(x[c]), mu); });
    p.rstd[r] = math::rstd(squares / Value(columns), p.eps);
  }
  const T *gamma = p.gamma, *beta = p.beta;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = p.x + r * columns;
    const Value mu = p.mu[r], rstd = p.rstd[r];
    write_cpu(p.y + r * columns, 0, columns, rows_bypass_cache<T>(p.rows * columns), [=](std::int64_t c) {
      return math::y(math::xhat(Value(x[c]), mu, rstd), Value(gamma[c]), Value(beta[c]));
    });
  }
}

// The row's shares of dgamma and dbeta, [2, columns], and its dx.
template <class T>
void backward_row(const LayerNormBackward<T>& p, std::int64_t r, compute_t<T>* own) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *dy = p.dy + r * columns, *gamma = p.gamma;
  Value *dgamma = own, *dbeta = own + columns;
  const Value mu = p.mu[r], rstd = p.rstd[r];
  const auto [sum_h, sum_h_xhat] = sums_cpu<2, Value>(columns, [=](std::int64_t c, Value(&sums)[2]) {
    const Value dy_rc = dy[c], xhat = math::xhat(Value(x[c]), mu, rstd), h = dy_rc * Value(gamma[c]);
    dgamma[c] += math::dgamma(dy_rc, xhat);
    dbeta[c] += dy_rc;
    sums[0] += h;
    sums[1] += h * xhat;
  });
  if (!p.dx) return;
  const Value mean_h = sum_h / Value(columns), mean_h_xhat = sum_h_xhat / Value(columns);
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
  write_cpu(dx, 0, columns, rows_bypass_cache<T>(p.rows * columns), [=](std::int64_t c) {
    return math::dx(Value(dy[c]) * Value(gamma[c]), math::xhat(Value(x[c]), mu, rstd), rstd, mean_h, mean_h_xhat);
  });
}

}  // namespace

template <class T>
void layer_norm_cpu(const LayerNormForward<T>& p) {
  for_row_groups_cpu(p.rows, p.columns, [&p](std::int64_t begin, std::int64_t end) { forward_rows(p, begin, end); });
}
template <class T>
void layer_norm_cpu(const LayerNormBackward<T>& p) {
  column_sums_cpu(p, [&p](std::int64_t r, compute_t<T>* own) { backward_row(p, r, own); });
}

FOLDGRAD_INSTANTIATE(layer_norm_cpu, LayerNormForward);
FOLDGRAD_INSTANTIATE(layer_norm_cpu, LayerNormBackward);

}  // namespace foldgrad
