// Cross-entropy kernels that keep each row of logits in registers, so that it is read only once. Their speed-up has not
// been measured.
#include "engine/cuda/fast/row_op.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE_FASTER(row_in_registers, CrossEntropyForward);

}  // namespace foldgrad
