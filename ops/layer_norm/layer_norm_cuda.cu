#include "engine/cuda/row_op.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, LayerNormForward);
FOLDGRAD_INSTANTIATE(row_op_with_column_sums_cuda, LayerNormBackward);

}  // namespace foldgrad
