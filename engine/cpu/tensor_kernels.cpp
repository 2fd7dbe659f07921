#include "engine/tensor_kernels.h"

#include "engine/cpu/elementwise.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cpu, Fill);
template void elementwise_cpu(const Fill<std::int32_t>&);
template void elementwise_cpu(const Fill<std::int64_t>&);
template void elementwise_cpu(const Fill<std::uint8_t>&);
FOLDGRAD_INSTANTIATE_OF(elementwise_cpu, Accumulate, float);
FOLDGRAD_INSTANTIATE_OF(elementwise_cpu, Accumulate, double);
FOLDGRAD_INSTANTIATE_OF(elementwise_cpu, Accumulate, bf16);

}  // namespace foldgrad
