#include "engine/cuda/column_sums.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, Dropout);
FOLDGRAD_INSTANTIATE(elementwise_cuda, DropPathFactors);
FOLDGRAD_INSTANTIATE(matrix_cuda, BiasDropoutResidualForward);
FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, BiasDropoutResidualBackward);

}  // namespace foldgrad
