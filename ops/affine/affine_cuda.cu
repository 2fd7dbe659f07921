#include "engine/cuda/column_sums.h"
#include "ops/affine/affine_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(matrix_cuda, AffineForward);
FOLDGRAD_INSTANTIATE(matrix_cuda, ScaleByForward);
FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, AffineBackward);
FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, ScaleByBackward);

}  // namespace foldgrad
