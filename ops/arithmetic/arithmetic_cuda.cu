#include "engine/cuda/elementwise.h"
#include "ops/arithmetic/arithmetic_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, BinaryForward, Plus);
FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, BinaryForward, Minus);
FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, BinaryForward, Times);
FOLDGRAD_INSTANTIATE(elementwise_cuda, MulBackward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, Scale);
FOLDGRAD_INSTANTIATE(matrix_cuda, AddBiasForward);

}  // namespace foldgrad
