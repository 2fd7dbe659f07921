// ScaleNorm kernels that keep each row in registers. Their speed-up has not been measured.
#include "engine/cuda/fast/row_op.h"
#include "ops/scale_norm/scale_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, ScaleNormForward);
FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, ScaleNormBackward);

}  // namespace foldgrad
