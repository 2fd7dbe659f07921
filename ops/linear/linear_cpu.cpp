#include "engine/cpu/column_sums.h"
#include "ops/linear/linear_kernels.h"

namespace foldgrad {

template <class T>
void linear_bias_backward_cpu(const LinearBiasBackward<T>& p) {
  column_sums_cpu(p);
}

template void linear_bias_backward_cpu(const LinearBiasBackward<float>&);
template void linear_bias_backward_cpu(const LinearBiasBackward<double>&);
template void linear_bias_backward_cpu(const LinearBiasBackward<bf16>&);

}  // namespace foldgrad
