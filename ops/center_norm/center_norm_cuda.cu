#include "engine/cuda/row_op.h"
#include "ops/center_norm/center_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, CenterNormForward);
FOLDGRAD_INSTANTIATE(row_op_with_column_sums_cuda, CenterNormBackward);

}  // namespace foldgrad
