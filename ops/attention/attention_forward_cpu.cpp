#include <omp.h>

#include <cmath>

#include "engine/memory.h"
#include "ops/attention/attention_blocks_cpu.h"

namespace foldgrad {
namespace {

using namespace attention_cpu_blocks;

template <class V>
struct ForwardRoom {
  V *scores, *y;    // [kBlock, kBlock], [kBlock, width]: sum over the keys so far
  V *max, *sum;     // [kBlock]: of q . k and of exp(s - scale max) over the keys so far
  V *keys, *q, *v;  // transposed keys; widened rows
  V* hidden;        // [kBlock]

  ForwardRoom(V* memory, std::int64_t width) {
    Arena<V> arena(memory);
    const std::int64_t rows = kBlock * padded<V>(width);
    scores = arena.take(kBlock * kBlock);
    for (V** room : {&y, &keys, &q, &v}) *room = arena.take(rows);
    for (V** room : {&max, &sum, &hidden}) *room = arena.take(kBlock);
  }
  static std::int64_t elements(std::int64_t width) {
    return kBlock * kBlock + 4 * kBlock * padded<V>(width) + 3 * kBlock;
  }
};

// One row of scores becomes probabilities, up to the factor that is known when all keys have been seen: relative to
// the largest score so far. When a larger one appears, what has been summed before shrinks.
template <class V>
void row_probabilities(V* scores, std::int64_t columns, V scale, V& max, V& sum, V* y, std::int64_t y_columns) {
  V lanes[kLanes<V>];
  std::fill_n(lanes, kLanes<V>, max);
  for (std::int64_t j = 0; j < columns; j += kLanes<V>)
#pragma omp simd
    for (int l = 0; l < kLanes<V>; ++l) lanes[l] = scores[j + l] > lanes[l] ? scores[j + l] : lanes[l];
  const V new_max = *std::max_element(lanes, lanes + kLanes<V>);
  const V shift = new_max == kHidden<V> ? V(0) : scale * new_max;
  if (new_max != max) {
    const V shrink = std::exp(scale * max - shift);
    sum *= shrink;
#pragma omp simd
    for (std::int64_t c = 0; c < y_columns; ++c) y[c] *= shrink;
    max = new_max;
  }
  V row_sum = 0;
#pragma omp simd reduction(+ : row_sum)
  for (std::int64_t j = 0; j < columns; ++j) {
    scores[j] = attention_math::p(scores[j], scale, shift);
    row_sum += scores[j];
  }
  sum += row_sum;
}

// Adds what queries i0 ... i0 + nq - 1 take from keys j0 ... j0 + nk - 1.
template <class T, class V = compute_t<T>>
void add_keys(const AttentionForward<T>& p, const AttentionHead& at, Matrix<const V> q, std::int64_t i0,
              std::int64_t nq, std::int64_t j0, std::int64_t nk, const ForwardRoom<V>& room) {
  const AttentionShape& s = p.shape;
  const T *k = p.k + at.k + j0 * s.k_row, *v = p.v + at.k + j0 * s.k_row;
  const auto keys = transposed(k, s.k_row, nk, s.width, room.keys);
  const auto values = whole_rows(v, s.k_row, nk, s.width, room.v);
  KeepFactors<V> keep(s);
  const V* hidden = hidden_keys(p.mask ? p.mask + at.mask + j0 : nullptr, nk, room.hidden);
  const std::int64_t diagonal = i0 + s.keys - s.queries - j0, y_row = padded<V>(s.width);
  small_gemm(SmallGemm<V>{room.scores, q.data, keys.data, kBlock, q.row, 1, keys.row, nq, nk, s.width, false,
                          s.causal ? Causal::columns : Causal::none, diagonal});
  for (std::int64_t i = 0; i < nq; ++i) {
    V* scores = room.scores + i * kBlock;
    const std::int64_t visible = std::clamp<std::int64_t>(s.visible(i0 + i) - j0, 0, nk);
    const std::int64_t columns = hide(scores, visible, hidden);
    row_probabilities(scores, columns, V(s.scale), room.max[i], room.sum[i], room.y + i * y_row, j0 > 0 ? y_row : 0);
    for (std::int64_t j = columns; j < nk; ++j) scores[j] = 0;
    if (s.drop_below > 0) keep.multiply(scores, s.random_element(at.number, i0 + i) + std::uint64_t(j0), columns);
  }
  small_gemm(SmallGemm<V>{room.y, room.scores, values.data, y_row, kBlock, 1, values.row, nq, s.width, nk, j0 > 0,
                          s.causal ? Causal::terms : Causal::none, diagonal});  // [ATT-3]
}

template <class T, class V = compute_t<T>>
void forward_block(const AttentionForward<T>& p, std::int64_t head, std::int64_t i0, const ForwardRoom<V>& room) {
  const AttentionShape& s = p.shape;
  const AttentionHead at(s, head);
  const std::int64_t nq = std::min(kBlock, s.queries - i0), y_row = padded<V>(s.width);
  const auto q = whole_rows(p.q + at.q + i0 * s.q_row, s.q_row, nq, s.width, room.q);
  std::fill_n(room.max, nq, kHidden<V>);
  std::fill_n(room.sum, nq, V(0));
  const std::int64_t keys = s.visible(i0 + nq - 1);
  for (std::int64_t j0 = 0; j0 < keys; j0 += kBlock) add_keys(p, at, q, i0, nq, j0, std::min(kBlock, keys - j0), room);
  for (std::int64_t i = 0; i < nq; ++i) {
    T* y = p.y + at.y + (i0 + i) * s.y_row();
    const V sum = room.sum[i], *unnormalized = room.y + i * y_row;
    const bool blind = sum == 0;
    const V factor = V(1) / sum;
#pragma omp simd
    for (std::int64_t c = 0; c < s.width; ++c) y[c] = T(blind ? V(0) : unnormalized[c] * factor);
    p.L[at.L + i0 + i] = blind ? -kHidden<V> : V(s.scale) * room.max[i] + std::log(sum);  // [ATT-2]
  }
}

}  // namespace

// Blocks of queries are independent, so neither the number of threads nor who takes which block changes a bit. With
// `causal` the later ones take longer, hence the dynamic schedule.
template <class T>
void attention_cpu(const AttentionForward<T>& p) {
  using V = compute_t<T>;
  const AttentionShape& s = p.shape;
  const std::int64_t blocks = (s.queries + kBlock - 1) / kBlock, count = s.batch * s.heads * blocks;
  const std::int64_t elements = ForwardRoom<V>::elements(s.width);
  const auto scratch = memory::allocate(Device::cpu, std::size_t(omp_get_max_threads() * elements) * sizeof(V));
#pragma omp parallel if (s.products() >= kParallelProducts)
  {
    const ForwardRoom<V> room(static_cast<V*>(scratch.get()) + omp_get_thread_num() * elements, s.width);
#pragma omp for schedule(dynamic)
    for (std::int64_t n = 0; n < count; ++n) forward_block(p, n / blocks, n % blocks * kBlock, room);
  }
}

template void attention_cpu(const AttentionForward<float>&);
template void attention_cpu(const AttentionForward<double>&);
template void attention_cpu(const AttentionForward<bf16>&);

}  // namespace foldgrad
