#include <cmath>

#include "engine/cuda/reduce.h"
#include "ops/attention/attention_tiles_cuda.h"

namespace foldgrad {
namespace {

using namespace attention_tiles;
using attention_math::kHidden;

// The running state of a thread for its rows: the largest q . k so far and, relative to this maximum, the sum of exp(s
// - scale * max) and the thread's columns of y.
template <class V>
struct Running {
  V max[kPerThread], sum[kPerThread];
  Sums<V> y;
};

// Turns the scores of a row's next keys into probabilities relative to the largest score so far, and writes z times
// these probabilities to `weights`.
template <class T, class V>
__device__ void take_scores(const AttentionForward<T>& p, const AttentionHead& at, std::int64_t i, std::int64_t j0,
                            int a, V (&scores)[kPerThread], Running<V>& running, V* weights) {
  const AttentionShape& s = p.shape;
  const V scale = V(s.scale);
  V largest = running.max[a];
  FOLDGRAD_UNROLL
  for (int b = 0; b < kPerThread; ++b) {
    const std::int64_t j = j0 + column_of(b);
    if (j >= at.visible(i))
      scores[b] = kHidden<V>;
    else if (p.bias && i < at.queries)
      scores[b] += V(p.bias[at.bias(int(i)) + j]) / scale;
    largest = Max{}(largest, scores[b]);
  }
  largest = row_reduce(largest, Max{});
  const V shift = largest == kHidden<V> ? V(0) : scale * largest;
  const V shrink = std::exp(scale * running.max[a] - shift);
  V sum = 0;
  FOLDGRAD_UNROLL
  for (int b = 0; b < kPerThread; ++b) {
    const V e = attention_math::p(scores[b], scale, shift);
    sum += e;
    weights[row_of(a) * kTileRow + column_of(b)] = V(s.z(at.random_element(i) + j0 + column_of(b))) * e;
  }
  running.max[a] = largest;
  running.sum[a] = running.sum[a] * shrink + row_reduce(sum, Sum{});
  FOLDGRAD_UNROLL
  for (auto& chunk : running.y[a]) {
    FOLDGRAD_UNROLL
    for (V& y : chunk) y *= shrink;
  }
}

template <class T>
__global__ void forward_kernel(AttentionForward<T> p) {
  using V = compute_t<T>;
  V *room = dynamic_shared<V>(), *weights = room + 2 * kTileElements;
  const AttentionShape& s = p.shape;
  const AttentionHead at(s, blockIdx.x);
  const std::int64_t i0 = std::int64_t(blockIdx.y) * kTile;
  if (i0 >= at.queries) return;  // all threads of the block return, since the tile is beyond the segment
  const int width = int(s.width), queries = in_tile(at.queries, i0);
  const Rows<T> q{p.q + at.q() + i0 * s.q_row, s.q_row, queries, width};

  Running<V> running = {};
  FOLDGRAD_UNROLL
  for (V& max : running.max) max = kHidden<V>;
  const std::int64_t keys = at.visible(i0 + queries - 1);
  for (std::int64_t j0 = 0; j0 < keys; j0 += kTile) {
    const int n = in_tile(at.keys, j0);
    const Rows<T> k{p.k + at.k() + j0 * s.k_row, s.k_row, n, width}, v{p.v + at.k() + j0 * s.k_row, s.k_row, n, width};
    Scores<V> scores;
    row_products(scores, q, k, room);
    FOLDGRAD_UNROLL
    for (int a = 0; a < kPerThread; ++a) take_scores(p, at, i0 + row_of(a), j0, a, scores[a], running, weights);
    add_weighted_rows(running.y, weights, v, room);  // [ATT-3]
  }
  V factor[kPerThread];
  FOLDGRAD_UNROLL
  for (int a = 0; a < kPerThread; ++a) {
    factor[a] = running.sum[a] == 0 ? V(0) : V(1) / running.sum[a];
    if (thread_x() == 0 && row_of(a) < queries)
      p.L[at.L() + i0 + row_of(a)] = attention_math::L(running.max[a], running.sum[a], V(s.scale));
  }
  FOLDGRAD_UNROLL
  for (int a = 0; a < kPerThread; ++a) {
    FOLDGRAD_UNROLL
    for (auto& chunk : running.y[a]) {
      FOLDGRAD_UNROLL
      for (V& y : chunk) y *= factor[a];
    }
  }

  for_sums(running.y, queries, width,
           [&](int row, int column, V y) { p.y[at.y() + (i0 + row) * s.y_row() + column] = T(y); });
}

}  // namespace

template <class T>
void attention_cuda(const AttentionForward<T>& p) {
  const std::size_t shared_bytes = 3 * kTileElements * sizeof(compute_t<T>);
  launch("attention forward", forward_kernel<T>, grid_of(p.shape, tiles(p.shape.longest_queries), shared_bytes), p);
}

FOLDGRAD_INSTANTIATE(attention_cuda, AttentionForward);

}  // namespace foldgrad
