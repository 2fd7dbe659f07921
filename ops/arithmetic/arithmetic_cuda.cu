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

#define FOLDGRAD_INSTANTIATE(T)                                  \
  template void arithmetic_cuda(const BinaryForward<T, Plus>&);  \
  template void arithmetic_cuda(const BinaryForward<T, Minus>&); \
  template void arithmetic_cuda(const BinaryForward<T, Times>&); \
  template void arithmetic_cuda(const MulBackward<T>&);          \
  template void arithmetic_cuda(const ScaleForward<T>&);         \
  template void arithmetic_cuda(const ScaleBackward<T>&);        \
  template void add_bias_cuda(const AddBiasForward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
