#include "engine/cuda/column_sums.h"
#include "engine/cuda/reduce.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

// One block.
template <class T>
__global__ void total_kernel(Total<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  Value sum = 0;
  for (std::int64_t i = threadIdx.x; i < p.n; i += blockDim.x) sum += p.values[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) p.out.put(0, sum);
}

}  // namespace

template <class T>
void total_cuda(const Total<T>& p) {
  launch("total", total_kernel<T>, one_block_per_row<compute_t<T>>(1), p);
}
template <class T>
void total_cuda(const ColumnTotals<T>& p) {
  packed_column_sums_cuda<kPackSize<T>>("totals of columns", p);
}

FOLDGRAD_INSTANTIATE(total_cuda, Total);
FOLDGRAD_INSTANTIATE(total_cuda, ColumnTotals);

}  // namespace foldgrad
