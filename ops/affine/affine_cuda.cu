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

FOLDGRAD_INSTANTIATE(affine_cuda, AffineForward);
FOLDGRAD_INSTANTIATE(affine_cuda, ScaleByForward);
FOLDGRAD_INSTANTIATE(affine_backward_cuda, AffineBackward);
FOLDGRAD_INSTANTIATE(affine_backward_cuda, ScaleByBackward);

}  // namespace foldgrad
