#include "engine/cuda/elementwise.h"
#include "engine/cuda/matrix.h"
#include "engine/cuda/reduce.h"
#include "ops/rbn_penalty/rbn_penalty_kernels.h"

namespace foldgrad {
namespace {

// One block: there are only as many terms as channels.
template <class T>
__global__ void penalty_kernel(RbnPenalty<T> p) {
  double* scratch = dynamic_shared<double>();  // one per warp
  double sum = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += p.term(c);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *p.y = T(sum);
}

}  // namespace

template <class T>
void rbn_penalty_cuda(const RbnPenalty<T>& p) {
  launch("rbn_penalty", penalty_kernel<T>, one_block_per_row<double>(1), p);
}
FOLDGRAD_INSTANTIATE(rbn_penalty_cuda, RbnPenalty);
FOLDGRAD_INSTANTIATE(elementwise_cuda, RbnPenaltyFactors);
FOLDGRAD_INSTANTIATE(matrix_cuda, RbnPenaltyGradient);

}  // namespace foldgrad
