#include "engine/cuda/column_sums.h"
#include "tests/engine/cuda/block_reduce_test_kernels.h"

namespace foldgrad {
template <>
constexpr int kPackOf<testing::Moments> = kPackSize<double>;
}  // namespace foldgrad

namespace foldgrad::testing {
namespace {

// Runs two reductions in a row, so that a missing barrier between them shows.
__global__ void reduce_rows_kernel(BlockReduction p) {
  double* scratch = dynamic_shared<double>();
  const double* x = p.x + blockIdx.x * p.n;
  double sum = 0, max = -1e300;
  for (std::int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
    sum += x[i];
    max = Max{}(max, x[i]);
  }
  const std::int64_t mine = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  p.sum[mine] = block_sum(sum, scratch);
  p.max[mine] = block_reduce(max, scratch, -1e300, Max{});
}

}  // namespace

void reduce_rows_cuda(const BlockReduction& p, unsigned blocks, unsigned threads) {
  launch("reduce_rows", reduce_rows_kernel, {dim3(blocks), dim3(threads), threads / kWarp * sizeof(double)}, p);
}
void moments_cuda(const Moments& p) { column_sums_cuda(p); }

}  // namespace foldgrad::testing
