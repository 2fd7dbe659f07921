#include "engine/cpu/elementwise.h"
#include "engine/fill_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cpu, Fill);
template void elementwise_cpu(const Fill<std::int32_t>&);
template void elementwise_cpu(const Fill<std::int64_t>&);
template void elementwise_cpu(const Fill<std::uint8_t>&);

}  // namespace foldgrad
