#include "engine/cuda/row_op.h"
#include "ops/weight_standardize/weight_standardize_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, WeightStandardizeForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, WeightStandardizeBackward);

}  // namespace foldgrad
