// Softmax kernels that keep each row in registers. Their speed-up has not been measured.
#include "engine/cuda/fast/row_op.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, SoftmaxForward);
FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, SoftmaxBackward);

}  // namespace foldgrad
