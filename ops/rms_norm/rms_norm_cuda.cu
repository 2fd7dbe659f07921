#include "engine/cuda/row_op.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, RmsNormOfAll);
FOLDGRAD_INSTANTIATE(row_op_cuda, RmsNormOfSome);
FOLDGRAD_INSTANTIATE(row_op_with_column_sums_cuda, RmsNormOfAllBackward);
FOLDGRAD_INSTANTIATE(row_op_with_column_sums_cuda, RmsNormOfSomeBackward);

}  // namespace foldgrad
