#include "engine/cuda/elementwise.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, SumBackward);

}  // namespace foldgrad
