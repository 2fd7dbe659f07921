#include "engine/tensor_kernels.h"

#include "engine/cpu/elementwise.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cpu, Fill);
template void elementwise_cpu(const Fill<std::int32_t>&);
template void elementwise_cpu(const Fill<std::int64_t>&);
template void elementwise_cpu(const Fill<std::uint8_t>&);
FOLDGRAD_INSTANTIATE(elementwise_cpu, AccumulateInF32);
FOLDGRAD_INSTANTIATE(elementwise_cpu, AccumulateInF64);
FOLDGRAD_INSTANTIATE(elementwise_cpu, AccumulateInBf16);

}  // namespace foldgrad
