#include "engine/cpu/column_sums.h"
#include "engine/cpu/elementwise.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {
namespace {

// While dx of a row is in a register it is also added to dbias.
template <class T, class F>
void backward_row(const BiasActivateBackward<T, F>& p, std::int64_t r, compute_t<T>* dbias) {
  const BiasActivateBackward<T, F> local = p;
  const std::int64_t columns = local.columns, begin = r * columns;
  if (!local.p.dx) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dbias[c] += local.value(begin + c, c);
    return;
  }
  write_cpu(local.p.dx, begin, begin + columns, bypasses_cache<T>(local.rows * columns), [=](std::int64_t i) {
    const compute_t<T> dx = local.value(i, i - begin);
    dbias[i - begin] += dx;
    return dx;
  });
}

}  // namespace

template <class T>
void activation_cpu(const ActivationForward<T>& p) {
  with_activation(p.activation, [&](auto f) { elementwise_cpu(p.n, Activate<T, decltype(f)>{p}); });
}
template <class T>
void activation_cpu(const ActivationBackward<T>& p) {
  with_activation(p.activation, [&](auto f) { elementwise_cpu(p.n, ActivateBackward<T, decltype(f)>{p}); });
}
template <class T>
void activation_cpu(const BiasActivationForward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    elementwise_columns_cpu(p.rows * p.columns, p.columns, BiasActivate<T, decltype(f)>{p});
  });
}
template <class T>
void activation_cpu(const BiasActivationBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const BiasActivateBackward<T, decltype(f)> k{p};
    if (p.dbias)
      column_sums_cpu(k, [&k](std::int64_t r, compute_t<T>* dbias) { backward_row(k, r, dbias); });
    else if (p.dx)
      elementwise_columns_cpu(p.rows * p.columns, p.columns, k);
  });
}

FOLDGRAD_INSTANTIATE(activation_cpu, ActivationForward);
FOLDGRAD_INSTANTIATE(activation_cpu, ActivationBackward);
FOLDGRAD_INSTANTIATE(activation_cpu, BiasActivationForward);
FOLDGRAD_INSTANTIATE(activation_cpu, BiasActivationBackward);

}  // namespace foldgrad
