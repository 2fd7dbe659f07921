// Computes the gradients of keys and values in attention with tensor cores. The speed-up has not been measured.
#include "ops/attention/fast/attention_mma_backward.h"

namespace foldgrad {
namespace {

using namespace attention_mma;

constexpr int kNever = 1 << 30;  // larger than the index of any query

// If kShort, one block has all keys of a head and can therefore compute dq, too.
template <int kWidth, bool kShort>
struct Sizes {
  static constexpr int kMaxWarps = kShort ? 8 : 4;  // not tuned
  static constexpr int kQueries = 32;               // queries per tile: few enough to keep all sums in registers
  static constexpr int kStages = kWidth == 128 && kShort ? 1 : 2;  // limited by 99 KiB of shared memory
  static constexpr int kFragments = kQueries / 8;
};

template <int kWidth>
struct Gradients {
  FragmentC dk[kWidth / 8], dv[kWidth / 8];
};

// Returns the first query that sees key j.
__device__ inline int first_query(const AttentionHead& at, int j) {
  if (j >= at.keys) return kNever;
  return at.causal ? j - (at.keys - at.queries) : 0;
}

// The data of one of 32 queries. Each lane has one query, and the lanes exchange their queries' data. Bit k of `kept`
// belongs to key k of 16.
struct Query {
  std::uint32_t kept;
  Row row;
};
// Returns the data of query i. `element` is the number of the random element of query 0 and the first key.
__device__ inline Query query_at(const AttentionBackward<bf16>& p, const AttentionHead& at, int i,
                                 std::uint64_t element) {
  const AttentionShape& s = p.shape;
  return {s.drop_below == 0 ? 0xffffu : keep_bits<2>(s, element + std::uint64_t(std::int64_t(i) * at.keys)),
          row_at(p, at, i)};
}
__device__ inline Query ask(const Query& mine, int lane) {
  return {__shfl_sync(0xffffffffu, mine.kept, lane),
          {__shfl_sync(0xffffffffu, mine.row.L, lane), __shfl_sync(0xffffffffu, mine.row.delta, lane)}};
}

// Replaces q . k and dy . v by z * p and ds. Rows are keys; `first` contains the first query that sees each key.
// Columns are queries, beginning with i0.
template <int kFragments>
__device__ void take_scores(const AttentionBackward<bf16>& p, const AttentionHead& at, int i0, int j0,
                            const int (&first)[2], FragmentC (&q_dot_k)[kFragments],
                            FragmentC (&dy_dot_v)[kFragments]) {
  const AttentionShape& s = p.shape;
  Query mine[kFragments / 4];
  FOLDGRAD_UNROLL
  for (int w = 0; w < kFragments / 4; ++w)
    mine[w] = query_at(p, at, i0 + 32 * w + lane(), at.first_element() + std::uint64_t(j0));
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; ++n) {
    FOLDGRAD_UNROLL
    for (int c = 0; c < 2; ++c) {
      const int column = 8 * n + column_of(c);
      const Query query = ask(mine[n / 4], column % kWarp);
      FOLDGRAD_UNROLL
      for (int a = 0; a < 2; ++a) {
        float &zp = q_dot_k[n].r[2 * a + c], &ds = dy_dot_v[n].r[2 * a + c];
        const Entry e = entry(s, query.row, zp, ds, i0 + column >= first[a], query.kept >> row_of(a) & 1);
        zp = e.zp;
        ds = e.ds;
      }
    }
  }
}

// Stores ds of a warp's keys as rows of a tile that all warps read.
template <int kQueries>
__device__ void store_ds(const Tile<kQueries>& tile, int row, const FragmentC (&ds)[kQueries / 8]) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kQueries / 8; ++n) {
    FOLDGRAD_UNROLL
    for (int a = 0; a < 2; ++a)
      store_pair(tile.chunk(row + row_of(a), n) + column_of(0), ds[n].r[2 * a], ds[n].r[2 * a + 1]);
  }
}

// Computes dq of a tile of queries from ds of all keys, and puts it. Handles 16 queries and 32 columns at a time.
template <int kWidth, int kQueries>
__device__ void put_dq(const AttentionBackward<bf16>& p, const AttentionHead& at, int i0, const Tile<kQueries>& ds,
                       const Tile<kWidth>& k) {
  const AttentionShape& s = p.shape;
  for (int part = warp(); part < kQueries / kWarpRows * (kWidth / 32); part += warps()) {
    const int row = part % (kQueries / kWarpRows) * kWarpRows, column = part / (kQueries / kWarpRows) * 32;
    if (i0 + row >= at.queries) continue;
    FragmentC dq[4] = {};
    for (int j = 0; j < warps() * kWarpRows; j += kWarpRows) {
      FragmentA a;
      load_matrices_transposed(a.r, ds.columns_first(j, row / 8));
      add_product(dq, a, k, j, column / 8);  // [ATT-6]
    }
    put_rows(p.dq, dq, at.q() + (i0 + row) * s.q_row + column, s.q_row, least(at.queries - i0 - row, kWarpRows),
             float(s.scale));
  }
}

// A block handles one head and 16 keys per warp. The warps loop over the queries together.
template <int kWidth, bool kShort>
__global__ void __launch_bounds__(Sizes<kWidth, kShort>::kMaxWarps* kWarp)
    backward_kv_kernel(AttentionBackward<bf16> p) {
  using S = Sizes<kWidth, kShort>;
  constexpr int kQueries = S::kQueries;
  const AttentionShape& s = p.shape;
  const int rows = warps() * kWarpRows, row = warp() * kWarpRows;
  const int blocks = kShort ? 1 : blocks_of(s.longest_keys, rows);
  const AttentionHead at(s, int(blockIdx.x) / blocks);
  const int j0 = int(blockIdx.x) % blocks * rows;
  if (!kShort && j0 >= at.keys) return;  // all threads of the block return, since the block is beyond the segment
  const Tile<kWidth> k{dynamic_shared<bf16>()}, v{k.data + rows * kWidth};
  const Tile<kQueries> ds_tile{v.data + rows * kWidth};
  const Stages<kWidth, kQueries, S::kStages> stages{ds_tile.data + (kShort ? rows * kQueries : 0)};
  const Rows q{p.q + at.q(), s.q_row, at.queries}, dy{p.dy + at.y(), s.y_row(), at.queries};
  // Skips leading tiles of queries that see no key of this block.
  const int first_seen = !kShort && s.causal ? j0 - (at.keys - at.queries) : 0;
  const int first_tile = first_seen > 0 ? first_seen / kQueries : 0;

  // Loads rows after the last key as zeros: 0 times a value that is not finite would make dq NaN.
  k.load(p.k + at.k() + j0 * s.k_row, s.k_row, least(at.keys - j0, rows), rows);
  v.load(p.v + at.k() + j0 * s.k_row, s.k_row, least(at.keys - j0, rows), rows);
  stages.load(first_tile, q, dy);
  if (kShort) write_deltas<kWidth>(p, at, warp() * kDeltas<kWidth>, at.queries, warps() * kDeltas<kWidth>);
  const int first[2] = {first_query(at, j0 + row + row_of(0)), first_query(at, j0 + row + row_of(1))};
  const int left = least(at.keys - j0 - row, kWarpRows);  // computing this after the loop would spill a register
  Gradients<kWidth> sums = {};
  for (int t = first_tile; t * kQueries < at.queries; ++t) {
    const int i0 = t * kQueries, columns = least(at.queries - i0, kQueries);
    if (S::kStages == 2) stages.load(t + 1, q, dy);
    async_wait<S::kStages - 1>();
    __syncthreads();
    FragmentC q_dot_k[S::kFragments], dy_dot_v[S::kFragments];
    multiply_rows(q_dot_k, k, row, stages.first(t), columns);
    multiply_rows(dy_dot_v, v, row, stages.second(t), columns);
    take_scores(p, at, i0, j0 + row, first, q_dot_k, dy_dot_v);
    add_weighted_rows(sums.dv, q_dot_k, stages.second(t), columns);  // [ATT-4]
    add_weighted_rows(sums.dk, dy_dot_v, stages.first(t), columns);  // [ATT-6]
    if (kShort) store_ds(ds_tile, row, dy_dot_v);
    __syncthreads();  // ds is complete, and the tile may be overwritten
    if (S::kStages == 1) stages.load(t + 1, q, dy);
    if (kShort && p.dq) put_dq(p, at, i0, ds_tile, k);
  }
  async_wait<0>();
  const std::int64_t at_row = at.k() + (j0 + row) * s.k_row;
  if (p.dk) put_rows(p.dk, sums.dk, at_row, s.k_row, left, float(s.scale));
  if (p.dv) put_rows(p.dv, sums.dv, at_row, s.k_row, left, float(s.keep_factor));
}

// Computes dk and dv. If kShort, also computes dq; then all queries and keys of a head must fit into one block.
template <bool kShort>
void backward_kv(const AttentionBackward<bf16>& p) {
  const AttentionShape& s = p.shape;
  with_width(s.width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    using S = Sizes<kWidth, kShort>;
    const std::int64_t needed = blocks_for(s.longest_keys, kWarpRows), blocks = blocks_for(needed, S::kMaxWarps);
    const unsigned warps = needed == 0 ? 1 : blocks > 1 ? S::kMaxWarps : unsigned(needed);
    const int rows = int(warps) * kWarpRows,
              stages = stages_for(blocks_for(s.longest_queries, S::kQueries), S::kStages);
    const int shared = 2 * rows * kWidth + (kShort ? rows * S::kQueries : 0) + stages * 2 * S::kQueries * kWidth;
    const Grid grid{s.segments * s.heads * (kShort ? 1 : blocks), dim3(warps * kWarp), shared * sizeof(bf16)};
    launch(kShort ? "attention backward, tensor cores" : "attention backward of k and v, tensor cores",
           backward_kv_kernel<kWidth, kShort>, grid, p);
  });
}

}  // namespace

// Uses no atomic additions, so every run gives the same bits. If all queries and keys of a head fit into one block, one
// kernel computes everything. Otherwise one kernel handles tiles of queries, another one handles tiles of keys, and
// each computes all scores.
void attention_mma_cuda(const AttentionBackward<bf16>& p) {
  constexpr int kShortest = Sizes<128, true>::kMaxWarps * kWarpRows;
  if (p.shape.longest_queries <= kShortest && p.shape.longest_keys <= kShortest) return backward_kv<true>(p);
  attention_mma_backward_q(p);
  if (p.dk || p.dv) backward_kv<false>(p);
}

}  // namespace foldgrad
