#include "engine/cuda/elementwise.h"
#include "engine/cuda/matrix.h"
#include "ops/channel_sums/channel_sums_cuda.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class Step>
void power_norm_step_cuda(const Step& p) {
  elementwise_cuda("power_norm step", p.columns, p);
}
template <class Pass>
void power_norm_cuda(const Pass& p) {
  matrix_cuda<kPackOf<Pass>>("power_norm", p.rows, p.columns, p);
}
template <class T>
void power_norm_sums_cuda(const PowerNormSums<T>& p) {
  sum_channels_cuda(p);
}

template void power_norm_step_cuda(const PowerNormCount&);
FOLDGRAD_INSTANTIATE(power_norm_step_cuda, PowerNormForwardStep);
FOLDGRAD_INSTANTIATE(power_norm_cuda, PowerNormApply);
FOLDGRAD_INSTANTIATE(power_norm_sums_cuda, PowerNormSums);
FOLDGRAD_INSTANTIATE(power_norm_step_cuda, PowerNormBackwardStep);
FOLDGRAD_INSTANTIATE(power_norm_cuda, PowerNormGradient);

}  // namespace foldgrad
