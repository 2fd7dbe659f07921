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

#define FOLDGRAD_INSTANTIATE(T)                                 \
  template void arithmetic_cpu(const BinaryForward<T, Plus>&);  \
  template void arithmetic_cpu(const BinaryForward<T, Minus>&); \
  template void arithmetic_cpu(const BinaryForward<T, Times>&); \
  template void arithmetic_cpu(const MulBackward<T>&);          \
  template void arithmetic_cpu(const ScaleForward<T>&);         \
  template void arithmetic_cpu(const ScaleBackward<T>&);        \
  template void add_bias_cpu(const AddBiasForward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
