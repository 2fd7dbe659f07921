#include "engine/cuda/elementwise.h"
#include "ops/arithmetic/arithmetic_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, AddForward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, SubForward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, MulForward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, MulBackward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, Scale);
FOLDGRAD_INSTANTIATE(matrix_cuda, AddBiasForward);

}  // namespace foldgrad
