#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {

template <class T>
void activation_cuda(const ActivationForward<T>& p) {
  with_activation(p.activation,
                  [&](auto f) { elementwise_cuda("activation forward", p.n, Activate<T, decltype(f)>{p}); });
}
template <class T>
void activation_cuda(const ActivationBackward<T>& p) {
  with_activation(p.activation,
                  [&](auto f) { elementwise_cuda("activation backward", p.n, ActivateBackward<T, decltype(f)>{p}); });
}
template <class T>
void activation_cuda(const BiasActivationForward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    elementwise_columns_cuda("bias_activation forward", p.rows * p.columns, p.columns, BiasActivate<T, decltype(f)>{p});
  });
}
template <class T>
void activation_cuda(const BiasActivationBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const BiasActivateBackward<T, decltype(f)> k{p};
    if (p.dx) elementwise_columns_cuda("bias_activation backward of x", p.rows * p.columns, p.columns, k);
    if (p.dbias) column_sums_cuda("bias_activation backward of bias", k);
  });
}

#define FOLDGRAD_INSTANTIATE(T)                                   \
  template void activation_cuda(const ActivationForward<T>&);     \
  template void activation_cuda(const ActivationBackward<T>&);    \
  template void activation_cuda(const BiasActivationForward<T>&); \
  template void activation_cuda(const BiasActivationBackward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
