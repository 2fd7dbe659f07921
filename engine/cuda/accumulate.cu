#include "engine/accumulate_kernels.h"
#include "engine/cuda/elementwise.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, Accumulate);
template void elementwise_cuda(const AccumulateBf16&);

}  // namespace foldgrad
