#include "engine/cuda/elementwise.h"
#include "ops/cast/cast_kernels.h"

namespace foldgrad {

template <class From, class To>
constexpr int kPackOf<Cast<From, To>> = kPackSize<From> < kPackSize<To> ? kPackSize<From> : kPackSize<To>;

template void elementwise_cuda(const Cast<float, double>&);
template void elementwise_cuda(const Cast<float, bf16>&);
template void elementwise_cuda(const Cast<double, float>&);
template void elementwise_cuda(const Cast<double, bf16>&);
template void elementwise_cuda(const Cast<bf16, float>&);
template void elementwise_cuda(const Cast<bf16, double>&);
template void elementwise_cuda(const Cast<std::int32_t, float>&);
template void elementwise_cuda(const Cast<std::int32_t, double>&);
template void elementwise_cuda(const Cast<std::int32_t, bf16>&);
template void elementwise_cuda(const Cast<std::int64_t, float>&);
template void elementwise_cuda(const Cast<std::int64_t, double>&);
template void elementwise_cuda(const Cast<std::int64_t, bf16>&);
template void elementwise_cuda(const Cast<std::uint8_t, float>&);
template void elementwise_cuda(const Cast<std::uint8_t, double>&);
template void elementwise_cuda(const Cast<std::uint8_t, bf16>&);

}  // namespace foldgrad
