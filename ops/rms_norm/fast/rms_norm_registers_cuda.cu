// RMS norm kernels that keep each row in registers, except for partial RMS norm. Their speed-up has not been measured.
#include "engine/cuda/fast/row_op.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, RmsNormOfAll);
FOLDGRAD_INSTANTIATE_FASTER(row_with_column_sums_in_registers, RmsNormOfAllBackward);

}  // namespace foldgrad
