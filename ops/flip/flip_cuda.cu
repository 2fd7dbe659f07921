#include "engine/cuda/elementwise.h"
#include "ops/flip/flip_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, Flip);

}  // namespace foldgrad
