#include <algorithm>

#include "engine/cuda/column_sums.h"
#include "engine/cuda/late_totals.h"

namespace foldgrad {
namespace {

// One block per 32 columns of each total.
__global__ void late_totals_kernel(LateTotalsTable table) {
  const LateTotal& total = table.totals[blockIdx.y];
  const std::int64_t c = std::int64_t(blockIdx.x) * kWarp + threadIdx.x;
  float sums[1] = {};
  if (add_up_parts(total.partials, total.parts, total.sums * total.columns, total.columns, c, sums))
    total.out.put(c, sums[0]);
}

}  // namespace

void late_totals_cuda(const LateTotalsTable& table) {
  std::int64_t columns = 0;
  for (int k = 0; k < table.count; ++k) columns = std::max(columns, table.totals[k].columns);
  Grid grid = finish_grid<float>(columns, 1);
  grid.blocks.y = table.count;
  launch("late totals of columns", late_totals_kernel, grid, table);
}

}  // namespace foldgrad
