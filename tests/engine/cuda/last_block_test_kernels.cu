#include "engine/cuda/last_block.h"
#include "tests/engine/cuda/last_block_test_kernels.h"

namespace foldgrad::testing {
namespace {

constexpr int kStrip = 32, kRows = 4;  // of threads

__global__ void last_block_sums_kernel(LastBlockSums p) {
  const int first = int(blockIdx.x) * kStrip, thread = int(threadIdx.y) * kStrip + int(threadIdx.x);
  const int c = first + int(threadIdx.x);
  if (threadIdx.y == 0 && c < p.columns) p.partials[blockIdx.y * p.columns + c] = p.x[blockIdx.y * p.columns + c];
  if (!is_last_block(p.arrivals + 1 + blockIdx.x, gridDim.y)) return;
  const int reversed = first + kStrip - 1 - thread;
  if (thread < kStrip && reversed < p.columns) {
    double sum = 0;
    for (int b = 0; b < p.blocks; ++b) sum += p.partials[b * p.columns + reversed];
    p.sums[reversed] = sum;
  }
  if (!is_last_block(p.arrivals, gridDim.x) || thread != kStrip * kRows - 1) return;
  double total = 0;
  for (int k = 0; k < p.columns; ++k) total += p.sums[k];
  *p.total = total;
}

}  // namespace

void last_block_sums_cuda(const LastBlockSums& p) {
  const Grid grid{dim3(unsigned((p.columns + kStrip - 1) / kStrip), unsigned(p.blocks)), dim3(kStrip, kRows),
                  sizeof(unsigned)};
  launch("last_block_sums", last_block_sums_kernel, grid, p);
}

}  // namespace foldgrad::testing
