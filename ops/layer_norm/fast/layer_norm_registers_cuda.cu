// LayerNorm kernels that keep each row in registers. Their speed-up has not been measured.
#include "engine/cuda/fast/row_op.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, LayerNormForward);
FOLDGRAD_INSTANTIATE_FASTER(row_with_column_sums_in_registers, LayerNormBackward);

}  // namespace foldgrad
