#include "engine/cuda/elementwise.h"
#include "ops/channel_norm/channel_sums_cuda.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class Step>
void power_norm_step_cuda(std::int64_t n, const Step& p) {
  elementwise_cuda("power_norm step", n, p);
}
template <class Pass>
void power_norm_cuda(const Pass& p) {
  elementwise_columns_cuda("power_norm", p.rows * p.columns, p.columns, p);
}
template <class T>
void power_norm_sums_cuda(const PowerNormSums<T>& p) {
  channel_sums_cuda("power_norm backward sums", p);
}

template void power_norm_step_cuda(std::int64_t, const PowerNormCount&);
#define FOLDGRAD_INSTANTIATE(T)                                                      \
  template void power_norm_step_cuda(std::int64_t, const PowerNormForwardStep<T>&);  \
  template void power_norm_cuda(const PowerNormApply<T>&);                           \
  template void power_norm_sums_cuda(const PowerNormSums<T>&);                       \
  template void power_norm_step_cuda(std::int64_t, const PowerNormBackwardStep<T>&); \
  template void power_norm_cuda(const PowerNormGradient<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
