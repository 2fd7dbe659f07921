#include "ops/channel_norm/channel_sums_cpu.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class Step>
void power_norm_step_cpu(std::int64_t n, const Step& p) {
  elementwise_cpu(n, p);
}
template <class Pass>
void power_norm_cpu(const Pass& p) {
  elementwise_columns_cpu(p.rows * p.columns, p.columns, p);
}
template <class T>
void power_norm_sums_cpu(const PowerNormSums<T>& p) {
  channel_sums_cpu(p);
}

template void power_norm_step_cpu(std::int64_t, const PowerNormCount&);
#define FOLDGRAD_INSTANTIATE(T)                                                     \
  template void power_norm_step_cpu(std::int64_t, const PowerNormForwardStep<T>&);  \
  template void power_norm_cpu(const PowerNormApply<T>&);                           \
  template void power_norm_sums_cpu(const PowerNormSums<T>&);                       \
  template void power_norm_step_cpu(std::int64_t, const PowerNormBackwardStep<T>&); \
  template void power_norm_cpu(const PowerNormGradient<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
