#include "ops/channel_sums/channel_sums_cpu.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class Step>
void power_norm_step_cpu(const Step& p) {
  elementwise_cpu(p.columns, p);
}
template <class Pass>
void power_norm_cpu(const Pass& p) {
  elementwise_columns_cpu(p.rows * p.columns, p.columns, p);
}
template <class T>
void power_norm_sums_cpu(const PowerNormSums<T>& p) {
  sum_channels_cpu(p);
}

template void power_norm_step_cpu(const PowerNormCount&);
FOLDGRAD_INSTANTIATE(power_norm_step_cpu, PowerNormForwardStep);
FOLDGRAD_INSTANTIATE(power_norm_cpu, PowerNormApply);
FOLDGRAD_INSTANTIATE(power_norm_sums_cpu, PowerNormSums);
FOLDGRAD_INSTANTIATE(power_norm_step_cpu, PowerNormBackwardStep);
FOLDGRAD_INSTANTIATE(power_norm_cpu, PowerNormGradient);

}  // namespace foldgrad
