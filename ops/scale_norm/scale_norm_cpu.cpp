#include "engine/cpu/rows.h"
#include "ops/scale_norm/scale_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = scale_norm_math;

template <class T>
void forward_row(const ScaleNormForward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T* x = p.x + r * columns;
  T* y = p.y + r * columns;
  const Value squares = sum_cpu<Value>(columns, [x](std::int64_t c) { return Value(x[c]) * Value(x[c]); });
  const Value rnorm = math::rnorm(squares, p.eps), g_rnorm = p.gain() * rnorm;
  p.rnorm[r] = rnorm;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) y[c] = T(math::y(Value(x[c]), g_rnorm));
}

template <class T>
void backward_row(const ScaleNormBackward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *dy = p.dy + r * columns;
  const Value rnorm = p.rnorm[r], g_rnorm = p.gain() * rnorm;
  const Value dy_u =
      sum_cpu<Value>(columns, [=](std::int64_t c) { return Value(dy[c]) * math::u(Value(x[c]), rnorm); });
  p.dy_u[r] = dy_u;  // [SN-3]
  if (!p.dx) return;
  const Value along = math::along(dy_u, rnorm, p.eps);
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    dx.put(c, math::dx(Value(dy[c]), math::u(Value(x[c]), rnorm), g_rnorm, along));
}

}  // namespace

template <class T>
void scale_norm_cpu(const ScaleNormForward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { forward_row(p, r); });
}
template <class T>
void scale_norm_cpu(const ScaleNormBackward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { backward_row(p, r); });
}

FOLDGRAD_INSTANTIATE(scale_norm_cpu, ScaleNormForward);
FOLDGRAD_INSTANTIATE(scale_norm_cpu, ScaleNormBackward);

}  // namespace foldgrad
