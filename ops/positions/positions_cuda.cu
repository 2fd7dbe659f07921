#include "engine/cuda/column_sums.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {
namespace {

constexpr int kThreads = 128;  // not tuned

// One block per token, which counts the tokens before it anew: a sentence is short, and nothing is kept.
template <class T>
__global__ void forward_kernel(PositionsForward<T> p) {
  using Value = compute_t<T>;
  int* scratch = dynamic_shared<int>();  // one per warp
  const std::int64_t r = blockIdx.x, t = r % p.length;
  std::int64_t position = t;  // [POS-4]
  if (p.mask) {
    const std::uint8_t* mask = p.mask + (r - t);
    int tokens = 0;
    for (std::int64_t s = threadIdx.x; s <= t; s += blockDim.x) tokens += mask[s] != 0;
    tokens = block_sum(tokens, scratch);
    position = kPaddingPosition + (mask[t] ? tokens : 0);  // [POS-2]
  }
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.y[r * p.columns + c] = T(Value(p.x[r * p.columns + c]) + Value(p.table[position * p.columns + c]));  // [POS-3]
}

}  // namespace

template <class T>
void positions_cuda(const PositionsForward<T>& p) {
  launch("positions forward", forward_kernel<T>,
         {dim3(unsigned(p.batch * p.length)), dim3(kThreads), kThreads / kWarp * sizeof(int)}, p);
}
template <class T>
void positions_cuda(const PositionsBackward<T>& p) {
  column_sums_cuda("positions backward of the table", p);
}

template void positions_cuda(const PositionsForward<float>&);
template void positions_cuda(const PositionsForward<double>&);
template void positions_cuda(const PositionsForward<bf16>&);
template void positions_cuda(const PositionsBackward<float>&);
template void positions_cuda(const PositionsBackward<double>&);
template void positions_cuda(const PositionsBackward<bf16>&);

}  // namespace foldgrad
