#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {
namespace {

// Uses one block per part: whole packs of N first, then the remaining elements one by one.
template <class T, int N>
__global__ void parts_kernel(SumForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t begin = p.begin(blockIdx.x), end = p.begin(blockIdx.x + 1), rest = end - (end - begin) % N;
  Value sum = 0;
  for (std::int64_t i = begin + threadIdx.x * N; i < rest; i += blockDim.x * N) {
    const Pack<T, N> x = load_pack<N>(p.x + i);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) sum += Value(x.v[e]);
  }
  for (std::int64_t i = rest + threadIdx.x; i < end; i += blockDim.x) sum += Value(p.x[i]);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) p.partials[blockIdx.x] = sum;
}

// Runs in one thread, since there are few parts.
template <class T>
__global__ void total_kernel(SumForward<T> p) {
  p.finish();
}

}  // namespace

template <class T>
void reduce_cuda(const SumForward<T>& p) {
  const bool packed = aligned_for_packs(16, p.x);
  launch("sum of parts", packed ? parts_kernel<T, kPackSize<T>> : parts_kernel<T, 1>,
         one_block_per_row<compute_t<T>>(p.parts), p);
  launch("sum", total_kernel<T>, Grid{dim3(1), dim3(1)}, p);
}

FOLDGRAD_INSTANTIATE(reduce_cuda, SumForward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, SumBackward);

}  // namespace foldgrad
