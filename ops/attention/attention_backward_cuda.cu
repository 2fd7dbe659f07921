#include "ops/attention/attention_tiles_cuda.h"

namespace foldgrad {
namespace {

using namespace attention_tiles;

// Writes delta of queries i0 ... i0 + n - 1, and 0 for the tile's other rows. Eight neighbouring threads share a row.
template <class T, class V>
__device__ void find_deltas(V* deltas, const AttentionBackward<T>& p, const AttentionHead& at, int i0, int n) {
  constexpr int kPerRow = kThreads / kTile;
  const int row = int(threadIdx.x) / kPerRow, lane = int(threadIdx.x) % kPerRow;
  const std::int64_t from = at.y() + (i0 + row) * p.shape.y_row();
  V sum = 0;
  for (std::int64_t c = lane; row < n && c < p.shape.width; c += kPerRow) sum += V(p.dy[from + c]) * V(p.y[from + c]);
  for (int distance = kPerRow / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) deltas[row] = sum;  // [ATT-5]
}

template <class V>
struct Entry {
  V zp, ds;  // z * p and scale * ds
};

// Returns z * p and scale * ds from q_i . k_j and dy_i . v_j; both are 0 for hidden keys and outside the segment.
template <bool kBias, class T, class V>
__device__ Entry<V> entry(const AttentionBackward<T>& p, const AttentionHead& at, int i, int j, V q_dot_k, V dy_dot_v,
                          V delta) {
  const AttentionShape& s = p.shape;
  if (i >= at.queries || j >= at.visible(i)) return {V(0), V(0)};
  const V scale = V(s.scale);
  if (kBias) q_dot_k += V(p.bias[at.bias(i) + j]) / scale;
  const V probability = attention_math::p(q_dot_k, scale, p.L[at.L() + i]);
  const V z = V(s.z(at.random_element(i) + std::uint64_t(j)));
  return {z * probability, scale * attention_math::ds(probability, z * dy_dot_v, delta)};
}

// Computes dq for a tile of queries; loops over the keys.
template <bool kBias, class T, class V>
__device__ void backward_q(const AttentionBackward<T>& p, const AttentionHead& at, int i0, V* room) {
  V *ds = room + 2 * kTileElements, *deltas = room + 4 * kTileElements;
  const AttentionShape& s = p.shape;
  if (i0 >= at.queries) return;  // all threads of the block return, since the tile is beyond the segment
  const int width = int(s.width), queries = in_tile(at.queries, i0);
  const Rows<T> q{p.q + at.q() + i0 * s.q_row, s.q_row, queries, width},
      dy{p.dy + at.y() + i0 * s.y_row(), s.y_row(), queries, width};

  find_deltas(deltas, p, at, i0, queries);
  Sums<V> dq = {};
  const int keys = at.visible(i0 + queries - 1);
  for (int j0 = 0; j0 < keys; j0 += kTile) {
    const int n = in_tile(at.keys, j0);
    const Rows<T> k{p.k + at.k() + j0 * s.k_row, s.k_row, n, width}, v{p.v + at.k() + j0 * s.k_row, s.k_row, n, width};
    Scores<V> q_dot_k, dy_dot_v;
    row_products(q_dot_k, q, k, room);
    row_products(dy_dot_v, dy, v, room);
    FOLDGRAD_UNROLL
    for (int a = 0; a < kPerThread; ++a) {
      FOLDGRAD_UNROLL
      for (int b = 0; b < kPerThread; ++b) {
        const int i = i0 + row_of(a), j = j0 + column_of(b);
        const V score = entry<kBias>(p, at, i, j, q_dot_k[a][b], dy_dot_v[a][b], deltas[row_of(a)]).ds;
        ds[row_of(a) * kTileRow + column_of(b)] = score;
        if (kBias && p.ds && i < at.queries && j < at.keys) p.ds[at.ds(i) + j] = score / V(s.scale);
      }
    }

    add_weighted_rows(dq, ds, k, room);  // [ATT-6]
  }
  if (p.dq)
    for_sums(dq, queries, width,
             [&](int row, int column, V sum) { p.dq.put(at.q() + (i0 + row) * s.q_row + column, sum); });
}

// Computes dk and dv for a tile of keys; loops over the queries. Here the rows of scores are keys.
template <bool kBias, class T, class V>
__device__ void backward_kv(const AttentionBackward<T>& p, const AttentionHead& at, int j0, V* room) {
  V *zp = room + 2 * kTileElements, *ds = zp + kTileElements, *deltas = ds + kTileElements;
  const AttentionShape& s = p.shape;
  if (j0 >= at.keys) return;  // all threads of the block return, since the tile is beyond the segment
  const int width = int(s.width), keys = in_tile(at.keys, j0);
  const Rows<T> k{p.k + at.k() + j0 * s.k_row, s.k_row, keys, width},
      v{p.v + at.k() + j0 * s.k_row, s.k_row, keys, width};

  Sums<V> dk = {}, dv = {};
  for (int i0 = 0; i0 < at.queries; i0 += kTile) {
    const int n = in_tile(at.queries, i0);
    if (at.visible(i0 + n - 1) <= j0) continue;
    const Rows<T> q{p.q + at.q() + i0 * s.q_row, s.q_row, n, width},
        dy{p.dy + at.y() + i0 * s.y_row(), s.y_row(), n, width};
    find_deltas(deltas, p, at, i0, n);
    Scores<V> q_dot_k, dy_dot_v;
    row_products(q_dot_k, k, q, room);
    row_products(dy_dot_v, v, dy, room);
    FOLDGRAD_UNROLL
    for (int a = 0; a < kPerThread; ++a) {
      FOLDGRAD_UNROLL
      for (int b = 0; b < kPerThread; ++b) {
        const Entry<V> e =
            entry<kBias>(p, at, i0 + column_of(b), j0 + row_of(a), q_dot_k[a][b], dy_dot_v[a][b], deltas[column_of(b)]);
        zp[row_of(a) * kTileRow + column_of(b)] = e.zp;
        ds[row_of(a) * kTileRow + column_of(b)] = e.ds;
      }
    }

    add_weighted_rows(dv, zp, dy, room);  // [ATT-4]
    add_weighted_rows(dk, ds, q, room);   // [ATT-6]
  }
  const auto put = [&](const GradOut<T>& out, const Sums<V>& sums) {
    if (out)
      for_sums(sums, keys, width,
               [&](int row, int column, V sum) { out.put(at.k() + (j0 + row) * s.k_row + column, sum); });
  };
  put(p.dk, dk);
  put(p.dv, dv);
}

// Uses one block per head and tile: tiles of queries first, then tiles of keys. Neither kind waits for the other, since
// each block computes the deltas that it needs. So one launch fills the GPU even for a small batch. With a bias, two
// blocks per multiprocessor would spill registers.
template <class T, bool kBias>
__global__ void __launch_bounds__(kThreads, sizeof(compute_t<T>) == 4 && !kBias ? 2 : 1)
    backward_kernel(AttentionBackward<T> p) {
  compute_t<T>* room = dynamic_shared<compute_t<T>>();
  const AttentionHead at(p.shape, blockIdx.x);
  const int tile = int(blockIdx.y), of_queries = p.dq || p.ds ? int(tiles(p.shape.longest_queries)) : 0;
  if (tile < of_queries)
    backward_q<kBias>(p, at, tile * kTile, room);
  else
    backward_kv<kBias>(p, at, (tile - of_queries) * kTile, room);
}

}  // namespace

// Computes the scores twice, once in blocks of queries and once in blocks of keys, because atomic additions would
// change the bits from run to run.
template <class T>
void attention_cuda(const AttentionBackward<T>& p) {
  const AttentionShape& s = p.shape;
  const std::int64_t needed =
      (p.dq || p.ds ? tiles(s.longest_queries) : 0) + (p.dk || p.dv ? tiles(s.longest_keys) : 0);
  launch("attention backward", p.bias ? backward_kernel<T, true> : backward_kernel<T, false>,
         grid_of(s, needed, (4 * kTileElements + kTile) * sizeof(compute_t<T>)), p);
}

FOLDGRAD_INSTANTIATE(attention_cuda, AttentionBackward);

}  // namespace foldgrad
