#include "engine/cuda/row_op.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, SoftmaxForward);
FOLDGRAD_INSTANTIATE(row_op_cuda, SoftmaxBackward);

}  // namespace foldgrad
