#include "engine/cuda/elementwise.h"
#include "engine/fill_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(elementwise_cuda, Fill);
template void elementwise_cuda(const Fill<std::int32_t>&);
template void elementwise_cuda(const Fill<std::int64_t>&);
template void elementwise_cuda(const Fill<std::uint8_t>&);

}  // namespace foldgrad
