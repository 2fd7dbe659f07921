#include "engine/cuda/elementwise.h"
#include "ops/arithmetic/arithmetic_kernels.h"

namespace foldgrad {

template <class Kernel>
void arithmetic_cuda(const Kernel& p) {
  elementwise_cuda("arithmetic", p.n, p);
}
template <class T>
void add_bias_cuda(const AddBiasForward<T>& p) {
  elementwise_columns_cuda("add_bias forward", p.rows * p.columns, p.columns, p);
}

FOLDGRAD_INSTANTIATE(arithmetic_cuda, AddForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, SubForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, MulForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, MulBackward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, ScaleForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, ScaleBackward);
FOLDGRAD_INSTANTIATE(add_bias_cuda, AddBiasForward);

}  // namespace foldgrad
