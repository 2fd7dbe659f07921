#include "engine/cuda/elementwise.h"
#include "engine/cuda/matrix.h"
#include "ops/channel_sums/channel_sums_cuda.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class T>
void power_norm_sums_cuda(const PowerNormSums<T>& p) {
  sum_channels_cuda(p);
}
FOLDGRAD_INSTANTIATE(power_norm_sums_cuda, PowerNormSums);

template void elementwise_cuda(const PowerNormCount&);
FOLDGRAD_INSTANTIATE(elementwise_cuda, PowerNormForwardStep);
FOLDGRAD_INSTANTIATE(elementwise_cuda, PowerNormBackwardStep);
FOLDGRAD_INSTANTIATE(matrix_cuda, PowerNormApply);
FOLDGRAD_INSTANTIATE(matrix_cuda, PowerNormGradient);

}  // namespace foldgrad
