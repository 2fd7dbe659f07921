#include "engine/cuda/rows.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

namespace math = cross_entropy_math;

// One block per row.
template <class T>
__global__ void forward_kernel(CrossEntropyForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* z = p.logits + r * p.columns;

  Value max = Value(-HUGE_VAL), sum = 0, sum_shifted = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) max = Max{}(max, Value(z[c]));
  const Value m = block_max(max, scratch, Value(-HUGE_VAL));  // [CE-1]
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) {
    sum += math::exponential(Value(z[c]), m);
    sum_shifted += Value(z[c]) - m;
  }
  sum = block_sum(sum, scratch);
  sum_shifted = block_sum(sum_shifted, scratch);
  if (threadIdx.x != 0) return;
  p.losses[r] = p.counts(r) ? math::loss(sum, p.gold_shifted(r, m), sum_shifted, p.q) : Value(0);
  p.max[r] = m;
  p.sum[r] = sum;
}

// One block for all rows.
template <class T>
__global__ void total_kernel(CrossEntropyForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  Value loss = 0, count = 0;
  for (std::int64_t r = threadIdx.x; r < p.rows; r += blockDim.x) {
    loss += p.losses[r];
    count += Value(p.counts(r));
  }
  loss = block_sum(loss, scratch);
  count = block_sum(count, scratch);
  if (threadIdx.x == 0) p.finish(loss, count);
}

// One block per row.
template <class T>
__global__ void backward_kernel(CrossEntropyBackward<T> p) {
  using Value = compute_t<T>;
  const std::int64_t r = blockIdx.x;
  const bool counts = p.counts(r);
  const Value m = p.max[r], sum_inverse = Value(1) / p.sum[r], weight = *p.dloss * *p.weight;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) {
    const std::int64_t i = r * p.columns + c;
    const Value e = math::exponential(Value(p.logits[i]), m);
    p.dlogits.put(i, counts ? math::dz(e, sum_inverse, p.q_of(r, c), weight) : Value(0));
  }
}

}  // namespace

template <class T>
void cross_entropy_cuda(const CrossEntropyForward<T>& p) {
  using Value = compute_t<T>;
  launch("cross_entropy forward", forward_kernel<T>, one_block_per_row<Value>(p.rows), p);
  launch("cross_entropy sum over rows", total_kernel<T>, one_block_per_row<Value>(1), p);
}
template <class T>
void cross_entropy_cuda(const CrossEntropyBackward<T>& p) {
  launch("cross_entropy backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}

FOLDGRAD_INSTANTIATE(cross_entropy_cuda, CrossEntropyForward);
FOLDGRAD_INSTANTIATE(cross_entropy_cuda, CrossEntropyBackward);

}  // namespace foldgrad
