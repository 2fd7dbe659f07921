#include <cmath>

#include "engine/cuda/reduce.h"
#include "ops/top_k/top_k_kernels.h"

namespace foldgrad {

template <class T>
__device__ Entry<T> shuffle_xor(Entry<T> e, int distance) {
  return {shuffle_xor(e.value, distance), shuffle_xor(e.index, distance)};
}

namespace {

struct First {
  template <class T>
  __device__ Entry<T> operator()(const Entry<T>& a, const Entry<T>& b) const {
    return b.before(a) ? b : a;
  }
};

// Uses one block per row. Each of k rounds over the row finds the best entry that comes after the previous round's
// entry.
template <class T>
__global__ void top_k_kernel(TopKParams<T> p) {
  auto* scratch = dynamic_shared<Entry<T>>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  const Entry<T> nothing{-T(INFINITY), -1};
  Entry<T> last = nothing;
  T top = 0;
  for (std::int64_t i = 0; i < p.k; ++i) {
    Entry<T> best = nothing;
    for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) {
      const Entry<T> e{x[c], c};
      const bool open = e.value == e.value && (i == 0 || last.before(e));
      if (open && e.before(best)) best = e;
    }
    last = block_reduce(best, scratch, nothing, First{});  // [TOP-1]; if no entry is left, later rounds find none
    if (i == 0) top = last.value;
    if (threadIdx.x == 0) {
      p.values[r * p.k + i] = last.value;
      p.indices[r * p.k + i] = last.index;
    }
  }
  for (std::int64_t i = threadIdx.x; i < p.wanted_columns; i += blockDim.x)
    p.wanted[r * p.wanted_columns + i] = x[p.columns_wanted[i]];
  T sum = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += std::exp(x[c] - top);
  sum = block_sum(sum, reinterpret_cast<T*>(scratch));
  if (threadIdx.x == 0) p.log_sum_exp[r] = top + std::log(sum);  // [TOP-2]
}

}  // namespace

template <class T>
void top_k_cuda(const TopKParams<T>& p) {
  launch("top_k", top_k_kernel<T>, one_block_per_row<Entry<T>>(p.rows), p);
}

template void top_k_cuda(const TopKParams<float>&);
template void top_k_cuda(const TopKParams<double>&);

}  // namespace foldgrad
