#include "engine/cuda/matrix.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(matrix_cuda, PositionsForward);
FOLDGRAD_INSTANTIATE(matrix_cuda, PositionsBackward);

}  // namespace foldgrad
