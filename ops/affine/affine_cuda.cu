#include "engine/cuda/column_sums.h"
#include "ops/affine/affine_kernels.h"

namespace foldgrad {

template <class Kernel>
void affine_cuda(const Kernel& p) {
  matrix_cuda<kPackOf<Kernel>>("affine forward", p.rows, p.columns, p);
}
template <class Kernel>
void affine_backward_cuda(const Kernel& p) {
  elements_and_column_sums_cuda<kPackOf<Kernel>>("affine backward", bool(p.dx), /*sums=*/true, p);
}

FOLDGRAD_INSTANTIATE(affine_cuda, AffineForward);
FOLDGRAD_INSTANTIATE(affine_cuda, ScaleByForward);
FOLDGRAD_INSTANTIATE(affine_backward_cuda, AffineBackward);
FOLDGRAD_INSTANTIATE(affine_backward_cuda, ScaleByBackward);

}  // namespace foldgrad
