#include "engine/cuda/column_sums.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {

#define FOLDGRAD_KERNELS(name, Struct)                                                                     \
  FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, ActivationForward, activation_math::Struct);                   \
  FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, ActivationBackward, activation_math::Struct);                  \
  FOLDGRAD_INSTANTIATE_OF(matrix_cuda, BiasActivationForward, activation_math::Struct);                    \
  FOLDGRAD_INSTANTIATE_OF(elements_and_column_sums_cuda, BiasActivationBackward, activation_math::Struct); \
  FOLDGRAD_INSTANTIATE_OF(matrix_cuda, BiasActivationDropoutForward, activation_math::Struct);             \
  FOLDGRAD_INSTANTIATE_OF(elements_and_column_sums_cuda, BiasActivationDropoutBackward, activation_math::Struct);
FOLDGRAD_ACTIVATIONS(FOLDGRAD_KERNELS)
#undef FOLDGRAD_KERNELS

}  // namespace foldgrad
