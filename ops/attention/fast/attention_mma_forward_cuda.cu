// Computes the forward pass of attention with tensor cores. The speed-up has not been measured.
#include "ops/attention/fast/attention_mma.h"

namespace foldgrad {
namespace {

using namespace attention_mma;
using attention_math::kHidden;

constexpr int kFragments = kKeys / 8;

// The running state of a lane for its two rows: the largest q . k so far and, relative to this maximum, the sum of
// exp(s - scale * max) and the row of y. Both sums are over the lane's own columns.
template <int kWidth>
struct Running {
  float max[2], sum[2];
  FragmentC y[kWidth / 8];
};

// Turns the scores of row a into probabilities relative to the largest score so far. Dropped probabilities become 0.
template <int kWidth>
__device__ void take_scores(FragmentC (&scores)[kFragments], int a, float scale, const RowBits& seen,
                            const RowBits& kept, Running<kWidth>& running) {
  float largest = running.max[a];
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; ++n) {
    FOLDGRAD_UNROLL
    for (int c = 0; c < 2; ++c) {
      float& score = scores[n].r[2 * a + c];
      if (!seen.at(n, c)) score = kHidden<float>;
      largest = Max{}(largest, score);
    }
  }
  largest = quad_reduce(largest, Max{});
  const float shift = largest == kHidden<float> ? 0.0f : scale * largest;
  const float shrink = fast_exp2(scale * running.max[a] - shift);
  float sum = 0;
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; ++n) {
    FOLDGRAD_UNROLL
    for (int c = 0; c < 2; ++c) {
      const float e = fast_exp2(scores[n].r[2 * a + c] * scale - shift);
      sum += e;
      scores[n].r[2 * a + c] = kept.at(n, c) ? e : 0.0f;
    }
  }
  running.max[a] = largest;
  running.sum[a] = running.sum[a] * shrink + sum;
  FOLDGRAD_UNROLL
  for (FragmentC& y : running.y) {
    y.r[2 * a] *= shrink;
    y.r[2 * a + 1] *= shrink;
  }
}

// Adds the tile of keys that begins at j0 to the sums of 16 queries, which begin at i0 in the head and at `row` in q.
template <int kWidth>
__device__ void take_keys(const AttentionForward<bf16>& p, const AttentionHead& at, int i0, int j0,
                          const Tile<kWidth>& q, int row, const Tile<kWidth>& k, const Tile<kWidth>& v,
                          Running<kWidth>& running) {
  const AttentionShape& s = p.shape;
  const int columns = least(at.visible(i0 + kWarpRows - 1) - j0, kKeys);
  if (i0 >= at.queries || columns <= 0) return;
  FragmentC scores[kFragments];
  multiply_rows(scores, q, row, k, columns);
  RowBits seen[2], kept[2];
  find_seen(seen, at, i0, j0);
  find_kept(kept, s, at, i0, j0);
  FOLDGRAD_UNROLL
  for (int a = 0; a < 2; ++a) take_scores(scores, a, float(s.scale) * kLog2e, seen[a], kept[a], running);
  add_weighted_rows(running.y, scores, v, columns);  // [ATT-3]
}

template <int kWidth>
__device__ void finish(const AttentionForward<bf16>& p, const AttentionHead& at, int i0, Running<kWidth>& running) {
  const AttentionShape& s = p.shape;
  FOLDGRAD_UNROLL
  for (int a = 0; a < 2; ++a) {
    const float sum = quad_reduce(running.sum[a], Sum{});
    if (lane() % 4 == 0 && i0 + row_of(a) < at.queries)
      p.L[at.L() + i0 + row_of(a)] = attention_math::L(running.max[a], sum, float(s.scale));
    const float factor = sum == 0 ? 0.0f : float(s.keep_factor) / sum;
    FOLDGRAD_UNROLL
    for (FragmentC& y : running.y) {
      y.r[2 * a] *= factor;
      y.r[2 * a + 1] *= factor;
    }
  }
  const auto store = [&](int row, int column, const Pack<float, 8>& values, bool wanted) {
    put_pack(p.y, at.y() + (i0 + row) * s.y_row() + column, values.v, wanted);
  };
  for_packs(running.y, least(at.queries - i0, kWarpRows), store);
}

// A block handles one head and 16 queries per warp. The warps loop over the keys together.
template <int kWidth>
__global__ void __launch_bounds__(kQueryWarps* kWarp) forward_kernel(AttentionForward<bf16> p) {
  const AttentionShape& s = p.shape;
  const int rows = warps() * kWarpRows, row = warp() * kWarpRows;
  const int blocks = blocks_of(s.longest_queries, rows);
  const AttentionHead at(s, int(blockIdx.x) / blocks);
  const int i0 = int(blockIdx.x) % blocks * rows;
  if (i0 >= at.queries) return;  // all threads of the block return, since the block is beyond the segment
  const int keys = at.visible(least(i0 + rows, at.queries) - 1);
  const Tile<kWidth> q{dynamic_shared<bf16>()};
  const Stages<kWidth, kKeys, kKeyStages> stages{q.data + rows * kWidth};
  const Rows k{p.k + at.k(), s.k_row, keys}, v{p.v + at.k(), s.k_row, keys};

  Running<kWidth> running = {{kHidden<float>, kHidden<float>}, {0, 0}, {}};
  q.load(p.q + at.q() + i0 * s.q_row, s.q_row, least(at.queries - i0, rows));
  stages.load(0, k, v);
  for (std::int64_t t = 0; t * kKeys < keys; ++t) {  // a 32-bit t makes nvcc 13 spill registers at a width of 32
    stages.load(int(t) + 1, k, v);
    async_wait<1>();
    __syncthreads();
    take_keys(p, at, i0 + row, int(t) * kKeys, q, row, stages.first(int(t)), stages.second(int(t)), running);
    __syncthreads();  // before load(t + 2) overwrites the tile
  }
  async_wait<0>();
  if (i0 + row < at.queries) finish(p, at, i0 + row, running);
}

}  // namespace

void attention_mma_cuda(const AttentionForward<bf16>& p) {
  with_width(p.shape.width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch_over_queries<kWidth>("attention forward, tensor cores", forward_kernel<kWidth>, 1, p);
  });
}

}  // namespace foldgrad
