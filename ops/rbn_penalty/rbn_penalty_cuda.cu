#include "engine/cuda/row_op.h"
#include "ops/rbn_penalty/rbn_penalty_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, RbnPenalty);
FOLDGRAD_INSTANTIATE(elementwise_cuda, RbnPenaltyFactors);
FOLDGRAD_INSTANTIATE(matrix_cuda, RbnPenaltyGradient);

}  // namespace foldgrad
