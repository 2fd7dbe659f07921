#include "engine/cuda/column_sums.h"
#include "ops/dyt/dyt_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_OF(matrix_cuda, DytForward, DytTanh);
FOLDGRAD_INSTANTIATE_OF(matrix_cuda, DytForward, DytErf);
FOLDGRAD_INSTANTIATE_OF(elements_and_column_sums_cuda, DytBackward, DytTanh);
FOLDGRAD_INSTANTIATE_OF(elements_and_column_sums_cuda, DytBackward, DytErf);

}  // namespace foldgrad
