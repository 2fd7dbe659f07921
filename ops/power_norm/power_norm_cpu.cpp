#include "ops/channel_sums/channel_sums_cpu.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {

template <class T>
void power_norm_sums_cpu(const PowerNormSums<T>& p) {
  sum_channels_cpu(p);
}
FOLDGRAD_INSTANTIATE(power_norm_sums_cpu, PowerNormSums);

}  // namespace foldgrad
