#include "engine/cuda/pack.h"
#include "engine/cuda/reduce.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

namespace math = cross_entropy_math;

constexpr int kMostThreads = 512;  // per row; not tuned

// Running maximum, sum of exponentials and sum of logits (both shifted by the maximum) over the part of a row that a
// thread has seen, so that every logit is read once.
template <class Value>
struct Online {
  Value max = Value(-HUGE_VAL), sum = 0, sum_shifted = 0, count = 0;

  // -infinity cannot be subtracted from itself.
  __device__ static Value base(Value m) { return m == Value(-HUGE_VAL) ? Value(0) : m; }

  // m is not below max. Where nothing but -infinity was seen, the sum is 0 and stays so.
  __device__ void shift_to(Value m) {
    const Value from = base(max), to = base(m);
    sum *= math::exponential(from, Max{}(to, from));
    sum_shifted -= count * (to - from);
    max = m;
  }
  template <int N>
  __device__ void add(const Value (&z)[N]) {
    Value m = max;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) m = Max{}(m, z[e]);
    shift_to(m);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      sum += math::exponential(z[e], base(m));
      sum_shifted += z[e] - base(m);
    }
    count += Value(N);
  }
};

// One block per row.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads) forward_kernel(CrossEntropyForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  Online<Value> own;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += std::int64_t(blockDim.x) * N) {
    const Pack<T, N> pack = load_pack<N>(p.logits + r * p.columns + c);
    Value z[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) z[e] = Value(pack.v[e]);
    own.add(z);
  }
  const Value m = block_max(own.max, scratch, Value(-HUGE_VAL));  // [CE-1]
  own.shift_to(m);
  const Value sum = block_sum(own.sum, scratch), sum_shifted = block_sum(own.sum_shifted, scratch);
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
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads) backward_kernel(CrossEntropyBackward<T> p) {
  using Value = compute_t<T>;
  const std::int64_t r = blockIdx.x;
  const bool counts = p.counts(r);
  const Value m = p.max[r], sum_inverse = Value(1) / p.sum[r], weight = *p.dloss * *p.weight;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += std::int64_t(blockDim.x) * N) {
    const Pack<T, N> z = load_pack<N>(p.logits + r * p.columns + c);
    Value dz[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      const Value exponential = math::exponential(Value(z.v[e]), m);
      dz[e] = counts ? math::dz(exponential, sum_inverse, p.q_of(r, c + e), weight) : Value(0);
    }
    put_pack(p.dlogits, r * p.columns + c, dz);
  }
}

template <class T>
bool in_packs(std::int64_t columns, const T* logits, const T* dlogits) {
  return columns % kPackSize<T> == 0 && aligned_for_packs(16, logits, dlogits);
}
// One block per row, of as many warps as its packs keep busy.
template <class Value>
Grid grid_of_rows(std::int64_t rows, std::int64_t columns, int pack) {
  const std::int64_t wanted = (columns / pack + kWarp - 1) / kWarp * kWarp;
  const unsigned threads = unsigned(wanted < kMostThreads ? wanted : kMostThreads);
  return {rows, dim3(threads), threads / kWarp * sizeof(Value)};
}

}  // namespace

template <class T>
void cross_entropy_cuda(const CrossEntropyForward<T>& p) {
  using Value = compute_t<T>;
  constexpr int N = kPackSize<T>;
  if (in_packs<T>(p.columns, p.logits, nullptr))
    launch("cross_entropy forward", forward_kernel<T, N>, grid_of_rows<Value>(p.rows, p.columns, N), p);
  else
    launch("cross_entropy forward", forward_kernel<T, 1>, grid_of_rows<Value>(p.rows, p.columns, 1), p);
  launch("cross_entropy sum over rows", total_kernel<T>, one_block_per_row<Value>(1), p);
}
template <class T>
void cross_entropy_cuda(const CrossEntropyBackward<T>& p) {
  using Value = compute_t<T>;
  constexpr int N = kPackSize<T>;
  if (in_packs<T>(p.columns, p.logits, p.dlogits.data))
    launch("cross_entropy backward", backward_kernel<T, N>, grid_of_rows<Value>(p.rows, p.columns, N), p);
  else
    launch("cross_entropy backward", backward_kernel<T, 1>, grid_of_rows<Value>(p.rows, p.columns, 1), p);
}

FOLDGRAD_INSTANTIATE(cross_entropy_cuda, CrossEntropyForward);
FOLDGRAD_INSTANTIATE(cross_entropy_cuda, CrossEntropyBackward);

}  // namespace foldgrad
