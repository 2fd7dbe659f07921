#include "engine/cuda/row_op.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, CrossEntropyForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, CrossEntropyTotal);
FOLDGRAD_INSTANTIATE(matrix_cuda, CrossEntropyBackward);

}  // namespace foldgrad
