#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = rms_norm_math;

template <class T>
void forward_rows(const RmsNormForward<T>& p, std::int64_t begin, std::int64_t end) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T* gamma = p.gamma;
  Value rrms_of[kRowGroup];
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = p.x + r * columns;
    const Value squares = sum_cpu<Value>(p.k, [x](std::int64_t c) { return Value(x[c]) * Value(x[c]); });
    rrms_of[r - begin] = p.finish(r, squares);
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = p.x + r * columns;
    const Value rrms = rrms_of[r - begin];
    write_cpu(p.y + r * columns, 0, columns, rows_bypass_cache<T>(p.rows * columns),
              [=](std::int64_t c) { return math::y(math::xhat(Value(x[c]), rrms), Value(gamma[c])); });
  }
}

// The row's share of dgamma, [columns], and its dx.
template <class T>
void backward_row(const RmsNormBackward<T>& p, std::int64_t r, compute_t<T>* dgamma) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *dy = p.dy + r * columns, *gamma = p.gamma;
  const Value rrms = p.rrms[r];
  const Value sum_h_xhat = sum_cpu<Value>(columns, [=](std::int64_t c) {
    const Value term = math::dgamma(Value(dy[c]), math::xhat(Value(x[c]), rrms));
    dgamma[c] += term;
    return term * Value(gamma[c]);
  });
  if (!p.dx) return;
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
  const bool bypass = rows_bypass_cache<T>(p.rows * columns);
  const auto put = [=](std::int64_t begin, std::int64_t end, Value along) {
    write_cpu(dx, begin, end, bypass, [=](std::int64_t c) {
      return math::dx(Value(dy[c]) * Value(gamma[c]), math::xhat(Value(x[c]), rrms), rrms, along);
    });
  };
  put(0, p.k, p.weight[r] * sum_h_xhat);
  put(p.k, columns, 0);
}

}  // namespace

template <class T>
void rms_norm_cpu(const RmsNormForward<T>& p) {
  for_row_groups_cpu(p.rows, p.columns, [&p](std::int64_t begin, std::int64_t end) { forward_rows(p, begin, end); });
}
template <class T>
void rms_norm_cpu(const RmsNormBackward<T>& p) {
  column_sums_cpu(p, [&p](std::int64_t r, compute_t<T>* dgamma) { backward_row(p, r, dgamma); });
}

FOLDGRAD_INSTANTIATE(rms_norm_cpu, RmsNormForward);
FOLDGRAD_INSTANTIATE(rms_norm_cpu, RmsNormBackward);

}  // namespace foldgrad
