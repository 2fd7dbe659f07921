// Computes the gradient of queries in attention with tensor cores. The speed-up has not been measured.
#include "ops/attention/fast/attention_mma_backward.h"

namespace foldgrad {
namespace {

using namespace attention_mma;

constexpr int kFragments = kKeys / 8;

// Replaces dy . v of row a by ds, which it computes from q . k and dy . v.
__device__ void take_scores(const FragmentC (&q_dot_k)[kFragments], FragmentC (&dy_dot_v)[kFragments], int a,
                            const AttentionShape& s, const Row& row, const RowBits& seen, const RowBits& kept) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; ++n) {
    FOLDGRAD_UNROLL
    for (int c = 0; c < 2; ++c) {
      const Entry e = entry(s, row, q_dot_k[n].r[2 * a + c], dy_dot_v[n].r[2 * a + c], seen.at(n, c), kept.at(n, c));
      dy_dot_v[n].r[2 * a + c] = e.ds;
    }
  }
}

// Adds the tile of keys that begins at j0 to dq of 16 queries, which begin at i0 in the head and at `row` in q and dy.
template <int kWidth>
__device__ void take_keys(const AttentionBackward<bf16>& p, const AttentionHead& at, int i0, int j0,
                          const Tile<kWidth>& q, const Tile<kWidth>& dy, int row, const Tile<kWidth>& k,
                          const Tile<kWidth>& v, const Row (&rows)[2], FragmentC (&dq)[kWidth / 8]) {
  const AttentionShape& s = p.shape;
  const int columns = least(at.visible(i0 + kWarpRows - 1) - j0, kKeys);
  if (i0 >= at.queries || columns <= 0) return;
  FragmentC q_dot_k[kFragments], dy_dot_v[kFragments];
  multiply_rows(q_dot_k, q, row, k, columns);
  multiply_rows(dy_dot_v, dy, row, v, columns);
  RowBits seen[2], kept[2];
  find_seen(seen, at, i0, j0);
  find_kept(kept, s, at, i0, j0);
  FOLDGRAD_UNROLL
  for (int a = 0; a < 2; ++a) take_scores(q_dot_k, dy_dot_v, a, s, rows[a], seen[a], kept[a]);
  add_weighted_rows(dq, dy_dot_v, k, columns);  // [ATT-6]
}

// A block handles one head and 16 queries per warp. The warps loop over the keys together.
template <int kWidth>
__global__ void __launch_bounds__(kQueryWarps* kWarp) backward_q_kernel(AttentionBackward<bf16> p) {
  const AttentionShape& s = p.shape;
  const int block_rows = warps() * kWarpRows, row = warp() * kWarpRows;
  const int blocks = blocks_of(s.longest_queries, block_rows);
  const AttentionHead at(s, int(blockIdx.x) / blocks);
  const int i0 = int(blockIdx.x) % blocks * block_rows;
  if (i0 >= at.queries) return;  // all threads of the block return, since the block is beyond the segment
  const int keys = p.dq ? at.visible(least(i0 + block_rows, at.queries) - 1) : 0;
  const Tile<kWidth> q{dynamic_shared<bf16>()}, dy{q.data + block_rows * kWidth};
  const Stages<kWidth, kKeys, kKeyStages> stages{dy.data + block_rows * kWidth};
  const Rows k{p.k + at.k(), s.k_row, keys}, v{p.v + at.k(), s.k_row, keys};

  const int queries = least(at.queries - i0, block_rows);
  q.load(p.q + at.q() + i0 * s.q_row, s.q_row, queries);
  dy.load(p.dy + at.y() + i0 * s.y_row(), s.y_row(), queries);
  stages.load(0, k, v);
  write_deltas<kWidth>(p, at, i0 + row, i0 + least(queries, row + kWarpRows), kDeltas<kWidth>);
  __syncwarp();  // other lanes of this warp read the deltas
  const Row rows[2] = {row_at(p, at, i0 + row + row_of(0)), row_at(p, at, i0 + row + row_of(1))};
  FragmentC dq[kWidth / 8] = {};
  for (int t = 0; t * kKeys < keys; ++t) {
    stages.load(t + 1, k, v);
    async_wait<1>();
    __syncthreads();
    take_keys(p, at, i0 + row, t * kKeys, q, dy, row, stages.first(t), stages.second(t), rows, dq);
    __syncthreads();  // before load(t + 2) overwrites the tile
  }
  async_wait<0>();
  if (p.dq) put_rows(p.dq, dq, at.q() + (i0 + row) * s.q_row, s.q_row, queries - row, float(s.scale));
}

}  // namespace

void attention_mma_backward_q(const AttentionBackward<bf16>& p) {
  with_width(p.shape.width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch_over_queries<kWidth>("attention backward of q, tensor cores", backward_q_kernel<kWidth>, 2, p);
  });
}

}  // namespace foldgrad
