#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {

#define FOLDGRAD_KERNELS(name, Struct)                                                                           \
  FOLDGRAD_INSTANTIATE(elementwise_cuda, ActivationKernels<activation_math::Struct>::Forward);                   \
  FOLDGRAD_INSTANTIATE(elementwise_cuda, ActivationKernels<activation_math::Struct>::Backward);                  \
  FOLDGRAD_INSTANTIATE(matrix_cuda, ActivationKernels<activation_math::Struct>::BiasForward);                    \
  FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, ActivationKernels<activation_math::Struct>::BiasBackward); \
  FOLDGRAD_INSTANTIATE(matrix_cuda, ActivationKernels<activation_math::Struct>::BiasDropoutForward);             \
  FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, ActivationKernels<activation_math::Struct>::BiasDropoutBackward);
FOLDGRAD_ACTIVATIONS(FOLDGRAD_KERNELS)
#undef FOLDGRAD_KERNELS

}  // namespace foldgrad
