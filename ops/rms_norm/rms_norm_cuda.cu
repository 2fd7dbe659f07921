#include "engine/cuda/row_op.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_OF(row_op_cuda, RmsNormForward, false);
FOLDGRAD_INSTANTIATE_OF(row_op_cuda, RmsNormForward, true);
FOLDGRAD_INSTANTIATE_OF(row_op_with_column_sums_cuda, RmsNormBackward, false);
FOLDGRAD_INSTANTIATE_OF(row_op_with_column_sums_cuda, RmsNormBackward, true);

}  // namespace foldgrad
