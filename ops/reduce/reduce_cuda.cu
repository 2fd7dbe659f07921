#include "engine/cuda/cells.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {
namespace {

// One block per part. It takes packs of N, and the few elements after the last whole pack one at a time.
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

// One thread: the parts are few.
template <class T>
__global__ void total_kernel(SumForward<T> p) {
  p.finish();
}

// Columns c ... c + N - 1 of y_b.
template <class T, int N>
struct Pool {
  MeanPoolForward<T> p;

  __device__ void operator()(std::int64_t, std::int64_t b, std::int64_t c) const {
    using Value = compute_t<T>;
    const Value weight = p.weight_of(b);
    Value sums[N] = {};
    for (std::int64_t t = 0; t < p.steps; ++t) {
      const bool counts = p.counts(b, t);
      const Pack<T, N> x = load_pack<N>(p.x + (b * p.steps + t) * p.columns + c, counts);  // zeros where it does not
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e) sums[e] += Value(x.v[e]);
    }
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) sums[e] = p.mean(sums[e], weight);
    store_pack(p.y + b * p.columns + c, rounded<T>(sums));
    if (c == 0) p.weight[b] = weight;
  }
};

// Columns c ... c + N - 1 of step t of dx_b.
template <class T, int N>
struct PoolBackward {
  MeanPoolBackward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t t, std::int64_t c) const {
    const Pack<T, N> dy = load_cached_pack<N>(p.dy + b * p.columns + c);
    const compute_t<T> factor = p.factor(b, t);
    compute_t<T> values[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) values[e] = p.dx_of(dy.v[e], factor);
    put_pack(p.dx, (b * p.steps + t) * p.columns + c, values);
  }
};

}  // namespace

template <class T>
void reduce_cuda(const SumForward<T>& p) {
  const bool packed = aligned_for_packs(16, p.x);
  launch("sum of parts", packed ? parts_kernel<T, kPackSize<T>> : parts_kernel<T, 1>,
         one_block_per_row<compute_t<T>>(p.parts), p);
  launch("sum", total_kernel<T>, Grid{dim3(1), dim3(1)}, p);
}
template <class T>
void reduce_cuda(const MeanPoolForward<T>& p) {
  constexpr int N = kPackSize<T>;
  if (p.columns % N == 0 && aligned_for_packs(16, p.x, p.y))
    cells_cuda<N>("mean_pool forward", 1, p.batch, p.columns, Pool<T, N>{p});
  else
    cells_cuda("mean_pool forward", 1, p.batch, p.columns, Pool<T, 1>{p});
}
template <class T>
void reduce_cuda(const MeanPoolBackward<T>& p) {
  constexpr int N = kPackSize<T>;
  if (p.columns % N == 0 && aligned_for_packs(16, p.dy, p.dx.data))
    cells_cuda<N>("mean_pool backward", p.batch, p.steps, p.columns, PoolBackward<T, N>{p});
  else
    cells_cuda("mean_pool backward", p.batch, p.steps, p.columns, PoolBackward<T, 1>{p});
}

FOLDGRAD_INSTANTIATE(reduce_cuda, SumForward);
FOLDGRAD_INSTANTIATE(elementwise_cuda, SumBackward);
FOLDGRAD_INSTANTIATE(reduce_cuda, MeanPoolForward);
FOLDGRAD_INSTANTIATE(reduce_cuda, MeanPoolBackward);

}  // namespace foldgrad
