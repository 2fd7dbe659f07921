#include "engine/cpu/elementwise.h"
#include "ops/arithmetic/arithmetic_kernels.h"

namespace foldgrad {

template <class Kernel>
void arithmetic_cpu(const Kernel& p) {
  elementwise_cpu(p.n, p);
}
template <class T>
void add_bias_cpu(const AddBiasForward<T>& p) {
  elementwise_columns_cpu(p.rows * p.columns, p.columns, p);
}

FOLDGRAD_INSTANTIATE(arithmetic_cpu, AddForward);
FOLDGRAD_INSTANTIATE(arithmetic_cpu, SubForward);
FOLDGRAD_INSTANTIATE(arithmetic_cpu, MulForward);
FOLDGRAD_INSTANTIATE(arithmetic_cpu, MulBackward);
FOLDGRAD_INSTANTIATE(arithmetic_cpu, ScaleForward);
FOLDGRAD_INSTANTIATE(arithmetic_cpu, ScaleBackward);
FOLDGRAD_INSTANTIATE(add_bias_cpu, AddBiasForward);

}  // namespace foldgrad
