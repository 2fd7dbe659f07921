#include "engine/cuda/column_sums.h"
#include "ops/dyt/dyt_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(matrix_cuda, DytTanhForward);
FOLDGRAD_INSTANTIATE(matrix_cuda, DerfForward);
FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, DytTanhBackward);
FOLDGRAD_INSTANTIATE(elements_and_column_sums_cuda, DerfBackward);

}  // namespace foldgrad
