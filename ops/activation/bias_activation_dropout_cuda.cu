#include "engine/cuda/column_sums.h"
#include "ops/activation/bias_activation_dropout_kernels.h"

namespace foldgrad {

#define FOLDGRAD_KERNELS(name, Struct)                                                               \
  FOLDGRAD_INSTANTIATE(matrix_cuda, BiasActivationDropoutKernels<activation_math::Struct>::Forward); \
  FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, BiasActivationDropoutKernels<activation_math::Struct>::Backward);
FOLDGRAD_ACTIVATIONS(FOLDGRAD_KERNELS)
#undef FOLDGRAD_KERNELS

}  // namespace foldgrad
