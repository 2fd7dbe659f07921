#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/affine/affine_kernels.h"

namespace foldgrad {

template <class Kernel>
void affine_cuda(const Kernel& p) {
  elementwise_columns_cuda("affine forward", p.rows * p.columns, p.columns, p);
}
template <class Kernel>
void affine_backward_cuda(const Kernel& p) {
  if (p.dx) elementwise_columns_cuda("affine backward of x", p.rows * p.columns, p.columns, p);
  column_sums_cuda("affine backward of the parameters", p);
}

#define FOLDGRAD_INSTANTIATE(T)                                 \
  template void affine_cuda(const AffineForward<T>&);           \
  template void affine_cuda(const ScaleByForward<T>&);          \
  template void affine_backward_cuda(const AffineBackward<T>&); \
  template void affine_backward_cuda(const ScaleByBackward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
