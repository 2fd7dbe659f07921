#include <vector>

#include "engine/cpu/rows.h"
#include "ops/attention/attention_blocks_cpu.h"

namespace foldgrad {
namespace {

using namespace attention_cpu_blocks;
using attention_math::kHidden;

template <class V>
struct ForwardRoom {
  Arena<V> arena;
  V *scores, *y;        // [kBlock, kBlock]; [kBlock, width], sums over the keys so far
  V *max, *sum;         // [kBlock]: maximum of q . k and sum of exp(s - scale * max) over the keys so far
  V *keys, *q, *k, *v;  // transposed keys; rows, padded to whole vectors

  explicit ForwardRoom(std::int64_t width) : arena(kBlock * (kBlock + 5 * padded<V>(width) + 2)) {
    const std::int64_t rows = kBlock * padded<V>(width);
    scores = arena.take(kBlock * kBlock);
    for (V** room : {&y, &keys, &q, &k, &v}) *room = arena.take(rows);
    for (V** room : {&max, &sum}) *room = arena.take(kBlock);
  }
};

// Turns a row of scores into probabilities relative to the largest score so far. After all keys, the probabilities are
// divided by their sum. If a larger score arrives, earlier sums are scaled down.
template <class V>
void row_probabilities(V* scores, std::int64_t columns, V scale, V& max, V& sum, V* y, std::int64_t y_columns) {
  V largest[kLanes<V>], sums[kLanes<V>] = {};
  for (V& lane : largest) lane = max;
  for (std::int64_t j = 0; j < columns; j += kLanes<V>)
#pragma omp simd
    for (int l = 0; l < kLanes<V>; ++l) largest[l] = scores[j + l] > largest[l] ? scores[j + l] : largest[l];
  const V new_max = merge_lanes<kLanes<V>>(largest, [](V a, V b) { return b > a ? b : a; });
  const V shift = new_max == kHidden<V> ? V(0) : scale * new_max;
  for (std::int64_t j = 0; j < columns; j += kLanes<V>)
#pragma omp simd
    for (int l = 0; l < kLanes<V>; ++l) {
      scores[j + l] = attention_math::p(scores[j + l], scale, shift);
      sums[l] += scores[j + l];
    }
  const V shrink = new_max == max ? V(1) : fast_exp(scale * max - shift);
  if (shrink != 1)
#pragma omp simd
    for (std::int64_t c = 0; c < y_columns; ++c) y[c] *= shrink;
  sum = sum * shrink + merge_lanes<kLanes<V>>(sums, [](V a, V b) { return a + b; });
  max = new_max;
}

// Adds the contributions of keys j0 ... j0 + nk - 1 to queries i0 ... i0 + nq - 1.
template <class T, class V = compute_t<T>>
void add_keys(const AttentionForward<T>& p, const AttentionHead& at, Matrix<const V> q, std::int64_t i0,
              std::int64_t nq, std::int64_t j0, std::int64_t nk, const ForwardRoom<V>& room) {
  const AttentionShape& s = p.shape;
  const T *k = p.k + at.k() + j0 * s.k_row, *v = p.v + at.k() + j0 * s.k_row;
  const auto keys = transposed(whole_rows(k, s.k_row, nk, s.width, room.k), nk, s.width, room.keys);
  const auto values = whole_rows(v, s.k_row, nk, s.width, room.v);
  const AttentionHead next = next_head(s, at);
  const T* bias = p.bias ? p.bias + at.bias(0) : nullptr;
  KeepFactors<V> keep(s);
  std::int32_t first[kBlock];
  first_queries<V>(first, at, j0, nk);
  const std::int64_t diagonal = i0 + at.keys - at.queries - j0, y_row = padded<V>(s.width);
  small_gemm(SmallGemm<V>{room.scores, q.data, keys.data, kBlock, q.row, 1, keys.row, nq, nk, s.width, false,
                          s.causal ? Causal::columns : Causal::none, diagonal});
  for (std::int64_t i = 0; i < nq; ++i) {
    V* scores = room.scores + i * kBlock;
    const std::int64_t query = i0 + i;
    if (is_one_block(at)) {
      fetch_row<true>(p.y + at.y(), s.y_row(), i, at.queries, s.width);
      fetch_row(p.q + next.q(), s.q_row, i, next.queries, s.width);
      fetch_row(p.k + next.k(), s.k_row, i, next.keys, s.width);
      fetch_row(p.v + next.k(), s.k_row, i, next.keys, s.width);
    }
    if (bias) add_bias(scores, bias + query * at.keys + j0, nk, s.scale);
    for_columns<V>(keys.row, [scores, &first, q = std::int32_t(query)](std::int64_t j) {
      scores[j] = q >= first[j] ? scores[j] : kHidden<V>;
    });
    row_probabilities(scores, keys.row, V(s.scale), room.max[i], room.sum[i], room.y + i * y_row, j0 > 0 ? y_row : 0);
    if (s.drop_below > 0) keep.multiply(scores, at.random_element(query) + std::uint64_t(j0), nk);
  }
  small_gemm(SmallGemm<V>{room.y, room.scores, values.data, y_row, kBlock, 1, values.row, nq, s.width, nk, j0 > 0,
                          s.causal ? Causal::terms : Causal::none, diagonal});  // [ATT-3]
}

template <class T, class V = compute_t<T>>
void forward_block(const AttentionForward<T>& p, std::int64_t head, std::int64_t i0, const ForwardRoom<V>& room) {
  const AttentionShape& s = p.shape;
  const AttentionHead at(s, head);
  const std::int64_t nq = std::min(block_of<V>(at.queries), at.queries - i0), y_row = padded<V>(s.width);
  const auto q = whole_rows(p.q + at.q() + i0 * s.q_row, s.q_row, nq, s.width, room.q);
  std::fill_n(room.max, nq, kHidden<V>);
  std::fill_n(room.sum, nq, V(0));
  const std::int64_t keys = at.visible(i0 + nq - 1);
  const std::int64_t block = block_of<V>(at.keys);
  for (std::int64_t j0 = 0; j0 < keys; j0 += block) add_keys(p, at, q, i0, nq, j0, std::min(block, keys - j0), room);
  for (std::int64_t i = 0; i < nq; ++i) {
    T* y = p.y + at.y() + (i0 + i) * s.y_row();
    const V sum = room.sum[i], *unnormalized = room.y + i * y_row;
    const bool blind = sum == 0;
    const V factor = V(1) / sum;
    for_columns<V>(s.width, [=](std::int64_t c) { y[c] = T(blind ? V(0) : unnormalized[c] * factor); });
    p.L[at.L() + i0 + i] = attention_math::L(room.max[i], sum, V(s.scale));
  }
}

}  // namespace

// The query blocks are independent, so y is bit-identical for any number of threads.
template <class T>
void attention_cpu(const AttentionForward<T>& p) {
  using V = compute_t<T>;
  const AttentionShape& s = p.shape;
  std::vector<QueryBlock> blocks;  // of all heads and segments
  for (std::int64_t head = 0; head < s.segments * s.heads; ++head) {
    const AttentionHead at(s, head);
    for (std::int64_t i0 = 0; i0 < at.queries; i0 += block_of<V>(at.queries)) blocks.push_back({head, i0});
  }
  const auto count = std::int64_t(blocks.size());
  parallel_ranges(count, elements_of_work(s, count), [&](std::int64_t begin, std::int64_t end) {
    const ForwardRoom<V> room(s.width);
    for (std::int64_t n = begin; n < end; ++n) forward_block(p, blocks[n].head, blocks[n].first, room);
  });
}

FOLDGRAD_INSTANTIATE(attention_cpu, AttentionForward);

}  // namespace foldgrad
