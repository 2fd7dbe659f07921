#include "engine/cpu/column_sums.h"
#include "engine/cpu/elementwise.h"
#include "ops/dyt/dyt_kernels.h"

namespace foldgrad {
namespace {

// The row's shares of dgamma, dbeta, dalpha and dshift, [4, columns], and its dx, from one evaluation of F.
template <class F, class T>
void backward_row(const DytBackwardElement<T, F>& k, std::int64_t r, compute_t<T>* own) {
  using Value = compute_t<T>;
  const std::int64_t columns = k.columns;
  const GradOut<T> dx{k.p.dx ? k.p.dx.data + r * columns : nullptr, k.p.dx.mode};
  const auto element = [=, local = k](std::int64_t c) {
    Value sums[4];
    for (int s = 0; s < 4; ++s) sums[s] = own[s * columns + c];
    const Value dx_rc = local.gradients(r * columns + c, c, sums);
    for (int s = 0; s < 4; ++s) own[s * columns + c] = sums[s];
    return dx_rc;
  };
  if (dx) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dx.put(c, element(c));
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) element(c);
  }
}

template <class F, class T>
void forward(const DytForward<T>& p) {
  elementwise_columns_cpu(p.rows * p.columns, p.columns, DytElement<T, F>{p, DytScalars<T>::read(p)});
}
template <class F, class T>
void backward(const DytBackward<T>& p) {
  const DytBackwardElement<T, F> k{p, DytScalars<T>::read(p)};
  column_sums_cpu(k, [&k](std::int64_t r, compute_t<T>* own) { backward_row<F, T>(k, r, own); });
}

}  // namespace

template <class T>
void dyt_cpu(const DytForward<T>& p) {
  p.shift ? forward<dyt_math::Erf>(p) : forward<dyt_math::Tanh>(p);
}
template <class T>
void dyt_cpu(const DytBackward<T>& p) {
  p.shift ? backward<dyt_math::Erf>(p) : backward<dyt_math::Tanh>(p);
}

FOLDGRAD_INSTANTIATE(dyt_cpu, DytForward);
FOLDGRAD_INSTANTIATE(dyt_cpu, DytBackward);

}  // namespace foldgrad
