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

FOLDGRAD_INSTANTIATE(affine_cpu, AffineForward);
FOLDGRAD_INSTANTIATE(affine_cpu, ScaleByForward);
FOLDGRAD_INSTANTIATE(affine_backward_cpu, AffineBackward);
FOLDGRAD_INSTANTIATE(affine_backward_cpu, ScaleByBackward);

}  // namespace foldgrad
