#include "engine/cuda/elementwise.h"
#include "ops/cast/cast_kernels.h"

namespace foldgrad {

template <class From, class To>
void cast_cuda(const Cast<From, To>& p, std::int64_t n) {
  constexpr int kSize = kPackSize<From> < kPackSize<To> ? kPackSize<From> : kPackSize<To>;
  elementwise_packs_cuda<kSize>("cast", n, p);
}

template void cast_cuda(const Cast<float, double>&, std::int64_t);
template void cast_cuda(const Cast<float, bf16>&, std::int64_t);
template void cast_cuda(const Cast<double, float>&, std::int64_t);
template void cast_cuda(const Cast<double, bf16>&, std::int64_t);
template void cast_cuda(const Cast<bf16, float>&, std::int64_t);
template void cast_cuda(const Cast<bf16, double>&, std::int64_t);
template void cast_cuda(const Cast<std::int32_t, float>&, std::int64_t);
template void cast_cuda(const Cast<std::int32_t, double>&, std::int64_t);
template void cast_cuda(const Cast<std::int32_t, bf16>&, std::int64_t);
template void cast_cuda(const Cast<std::int64_t, float>&, std::int64_t);
template void cast_cuda(const Cast<std::int64_t, double>&, std::int64_t);
template void cast_cuda(const Cast<std::int64_t, bf16>&, std::int64_t);
template void cast_cuda(const Cast<std::uint8_t, float>&, std::int64_t);
template void cast_cuda(const Cast<std::uint8_t, double>&, std::int64_t);
template void cast_cuda(const Cast<std::uint8_t, bf16>&, std::int64_t);

}  // namespace foldgrad
