#include "engine/cuda/elementwise.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {

template <class From, class To>
constexpr int kPackOf<Accumulate<From, To>> = kPackSize<From> < kPackSize<To> ? kPackSize<From> : kPackSize<To>;

FOLDGRAD_INSTANTIATE(elementwise_cuda, Fill);
template void elementwise_cuda(const Fill<std::int32_t>&);
template void elementwise_cuda(const Fill<std::int64_t>&);
template void elementwise_cuda(const Fill<std::uint8_t>&);
FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, Accumulate, float);
FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, Accumulate, double);
FOLDGRAD_INSTANTIATE_OF(elementwise_cuda, Accumulate, bf16);

}  // namespace foldgrad
