#include "engine/cuda/row_op.h"
#include "ops/divide_rows/divide_rows_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, DivideRowsForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, DivideRowsBackward);

}  // namespace foldgrad
