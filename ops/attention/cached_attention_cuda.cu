#include <cmath>

#include "engine/cuda/reduce.h"
#include "ops/attention/cached_attention_kernels.h"

namespace foldgrad {
namespace {

// Uses one warp per query and head. Each lane first computes the score of one key, then sums its own columns. If a
// larger score arrives, earlier sums are scaled down, so any number of keys is possible.
template <class T>
__global__ void cached_attention_kernel(CachedAttention<T> p) {
  using V = compute_t<T>;
  const int lane = int(threadIdx.x);
  const std::int64_t r = blockIdx.x / p.heads, column = blockIdx.x % p.heads * p.width;
  const std::int64_t begin = p.begins[r], end = p.begins[r + 1];
  const T* q = p.q + r * p.q_row + column;
  V* sums = dynamic_shared<V>();  // [width]; each lane accesses only its own columns
  for (std::int64_t c = lane; c < p.width; c += kWarp) sums[c] = 0;
  const V nothing = -V(INFINITY);
  V top = nothing, total = 0;
  for (std::int64_t first = begin; first < end; first += kWarp) {
    const std::int64_t mine = first + lane;
    V score = nothing;
    if (mine < end) {
      const T* key = p.key(mine) + column;
      score = 0;
      for (std::int64_t c = 0; c < p.width; ++c) score += V(q[c]) * V(key[c]);
      score *= V(p.scale);
    }
    const V higher = Max{}(top, warp_reduce(score, Max{})), shrunk = std::exp(top - higher),
            weight = std::exp(score - higher);
    top = higher;
    total = total * shrunk + warp_reduce(weight, Sum{});
    for (std::int64_t c = lane; c < p.width; c += kWarp) sums[c] *= shrunk;
    const int keys = int(end - first < kWarp ? end - first : kWarp);
    for (int j = 0; j < keys; ++j) {
      const V w = __shfl_sync(0xffffffffu, weight, j);
      const T* value = p.key(first + j) + p.columns() + column;
      for (std::int64_t c = lane; c < p.width; c += kWarp) sums[c] += w * V(value[c]);
    }
  }
  T* y = p.y + r * p.columns() + column;
  for (std::int64_t c = lane; c < p.width; c += kWarp) y[c] = T(begin < end ? sums[c] / total : V(0));  // [ATT-7]
}

}  // namespace

template <class T>
void cached_attention_cuda(const CachedAttention<T>& p) {
  launch("cached_attention", cached_attention_kernel<T>,
         {p.queries * p.heads, dim3(kWarp), std::size_t(p.width) * sizeof(compute_t<T>)}, p);
}

FOLDGRAD_INSTANTIATE(cached_attention_cuda, CachedAttention);

}  // namespace foldgrad
