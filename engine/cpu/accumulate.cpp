#include "engine/accumulate_kernels.h"
#include "engine/cpu/elementwise.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cpu, Accumulate);
template void elementwise_cpu(const AccumulateBf16&);

}  // namespace foldgrad
