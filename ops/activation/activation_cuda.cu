#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {

template <class T>
void activation_cuda(const ActivationForward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    elementwise_packs_cuda<kPackSize<T>>("activation forward", p.n, Activate<T, decltype(f)>{p});
  });
}
template <class T>
void activation_cuda(const ActivationBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    elementwise_packs_cuda<kPackSize<T>>("activation backward", p.n, ActivateBackward<T, decltype(f)>{p});
  });
}
template <class T>
void activation_cuda(const BiasActivationForward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    matrix_cuda<kPackSize<T>>("bias_activation forward", p.rows, p.columns, BiasActivate<T, decltype(f)>{p});
  });
}
template <class T>
void activation_cuda(const BiasActivationBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const BiasActivateBackward<T, decltype(f)> k{p};
    elements_and_column_sums_cuda<kPackSize<T>>("bias_activation backward", bool(p.dx), bool(p.dbias), k);
  });
}

FOLDGRAD_INSTANTIATE(activation_cuda, ActivationForward);
FOLDGRAD_INSTANTIATE(activation_cuda, ActivationBackward);
FOLDGRAD_INSTANTIATE(activation_cuda, BiasActivationForward);
FOLDGRAD_INSTANTIATE(activation_cuda, BiasActivationBackward);

}  // namespace foldgrad
