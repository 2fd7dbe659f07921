#include "engine/cuda/column_sums.h"
#include "ops/linear/linear_kernels.h"

namespace foldgrad {

template <class T>
void linear_bias_backward_cuda(const LinearBiasBackward<T>& p) {
  column_sums_cuda("linear backward of bias", p);
}

template void linear_bias_backward_cuda(const LinearBiasBackward<float>&);
template void linear_bias_backward_cuda(const LinearBiasBackward<double>&);
template void linear_bias_backward_cuda(const LinearBiasBackward<bf16>&);

}  // namespace foldgrad
