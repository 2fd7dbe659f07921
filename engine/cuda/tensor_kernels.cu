#include "engine/cuda/elementwise.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, Fill);
template void elementwise_cuda(const Fill<std::int32_t>&);
template void elementwise_cuda(const Fill<std::int64_t>&);
template void elementwise_cuda(const Fill<std::uint8_t>&);
FOLDGRAD_INSTANTIATE(elementwise_cuda, Accumulate);
template void elementwise_cuda(const AccumulateBf16&);
template void elementwise_cuda(const AccumulateInBf16&);

}  // namespace foldgrad
