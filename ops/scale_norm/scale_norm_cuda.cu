#include "engine/cuda/row_op.h"
#include "ops/scale_norm/scale_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, ScaleNormForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, ScaleNormBackward);

}  // namespace foldgrad
