#include "engine/cuda/row_op.h"
#include "ops/total/total.h"

namespace foldgrad {

FOLDGRAD_INSTANTIATE(row_op_cuda, Total);
FOLDGRAD_INSTANTIATE(column_sums_cuda, ColumnTotals);

}  // namespace foldgrad
