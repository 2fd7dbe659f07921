#include "engine/cpu/column_sums.h"
#include "engine/cpu/elementwise.h"
#include "ops/affine/affine_kernels.h"

namespace foldgrad {

template <class Kernel>
void affine_cpu(const Kernel& p) {
  elementwise_columns_cpu(p.rows * p.columns, p.columns, p);
}
template <class Kernel>
void affine_backward_cpu(const Kernel& p) {
  elements_and_column_sums_cpu(p);
}

#define FOLDGRAD_INSTANTIATE(T)                                \
  template void affine_cpu(const AffineForward<T>&);           \
  template void affine_cpu(const ScaleByForward<T>&);          \
  template void affine_backward_cpu(const AffineBackward<T>&); \
  template void affine_backward_cpu(const ScaleByBackward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
