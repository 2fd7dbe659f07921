#include "engine/cuda/elementwise.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template void elementwise_cuda(const PowerNormCount&);
FOLDGRAD_INSTANTIATE(elementwise_cuda, PowerNormForwardStep);
FOLDGRAD_INSTANTIATE(elementwise_cuda, PowerNormBackwardStep);

}  // namespace foldgrad
