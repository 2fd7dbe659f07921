#include <algorithm>

#include "engine/cpu/rows.h"
#include "ops/attention/attention_blocks_cpu.h"

namespace foldgrad {
namespace {

using namespace attention_cpu_blocks;

template <class V>
struct BackwardRoom {
  Arena<V> arena;
  V *p, *ds;          // [kBlock, kBlock]; before row() runs, these contain q . k and dy . v
  V *dq, *dk, *dv;    // [queries, width], [kBlock, width], [kBlock, width]
  V *keys, *values;   // transposed
  V *q, *k, *v, *dy;  // rows, padded to whole vectors
  V* delta;           // [queries]

  explicit BackwardRoom(const AttentionShape& s)
      : arena(2 * kBlock * kBlock + (8 * kBlock + s.longest_queries) * padded<V>(s.width) +
              padded<V>(s.longest_queries)) {
    const std::int64_t width = padded<V>(s.width);
    for (V** room : {&p, &ds}) *room = arena.take(kBlock * kBlock);
    for (V** room : {&dk, &dv, &keys, &values, &q, &k, &v, &dy}) *room = arena.take(kBlock * width);
    dq = arena.take(s.longest_queries * width);
    delta = arena.take(s.longest_queries);
  }
};

template <class T, class V = compute_t<T>>
class HeadBackward {
 public:
  HeadBackward(const AttentionBackward<T>& p, std::int64_t head, const BackwardRoom<V>& room)
      : p_(p),
        s_(p.shape),
        at_(s_, head),
        next_(next_head(s_, at_)),
        row_(padded<V>(s_.width)),
        room_(room),
        bias_(p.bias ? p.bias + at_.bias(0) : nullptr),
        keep_(s_) {}

  // Loops over blocks of keys and, for each, over blocks of queries. The sums dk and dv of a block stay in the cache;
  // dq of the whole head is accumulated in memory.
  void run() {
    sum_delta();
    const std::int64_t block = block_of<V>(at_.keys);
    for (std::int64_t j0 = 0; j0 < at_.keys; j0 += block) keys_block(j0, std::min(block, at_.keys - j0));
    if (at_.keys == 0) std::fill_n(room_.dq, at_.queries * row_, V(0));
    put(p_.dq, at_.q(), s_.q_row, room_.dq, at_.queries);
  }

 private:
  void sum_delta() {
    for (std::int64_t i = 0; i < at_.queries; ++i) {
      const T *dy = p_.dy + at_.y() + i * s_.y_row(), *y = p_.y + at_.y() + i * s_.y_row();
      room_.delta[i] = sum_cpu<V>(s_.width, [=](std::int64_t c) { return V(dy[c]) * V(y[c]); });  // [ATT-5]
    }
  }

  void keys_block(std::int64_t j0, std::int64_t nk) {
    const T *k = p_.k + at_.k() + j0 * s_.k_row, *v = p_.v + at_.k() + j0 * s_.k_row;
    k_rows_ = whole_rows(k, s_.k_row, nk, s_.width, room_.k);
    keys_ = transposed(k_rows_, nk, s_.width, room_.keys);
    values_ = transposed(whole_rows(v, s_.k_row, nk, s_.width, room_.v), nk, s_.width, room_.values);
    first_queries<V>(first_queries_, at_, j0, nk);
    bool first = true;
    const std::int64_t block = block_of<V>(at_.queries);
    for (std::int64_t i0 = 0; i0 < at_.queries; i0 += block) {
      const std::int64_t nq = std::min(block, at_.queries - i0);
      // Key block 0 is never skipped: it sets dq of all queries.
      if (j0 > 0 && at_.visible(i0 + nq - 1) <= j0) continue;
      queries_block(i0, nq, j0, nk, first);
      first = false;
    }
    if (first)
      for (V* sums : {room_.dk, room_.dv}) std::fill_n(sums, nk * row_, V(0));
    put(p_.dk, at_.k() + j0 * s_.k_row, s_.k_row, room_.dk, nk);
    put(p_.dv, at_.k() + j0 * s_.k_row, s_.k_row, room_.dv, nk);
  }

  void queries_block(std::int64_t i0, std::int64_t nq, std::int64_t j0, std::int64_t nk, bool first) {
    const auto q = whole_rows(p_.q + at_.q() + i0 * s_.q_row, s_.q_row, nq, s_.width, room_.q);
    const auto dy = whole_rows(p_.dy + at_.y() + i0 * s_.y_row(), s_.y_row(), nq, s_.width, room_.dy);
    const std::int64_t diagonal = i0 + at_.keys - at_.queries - j0;
    const auto causal = [&](Causal what) { return s_.causal ? what : Causal::none; };
    small_gemm(SmallGemm<V>{room_.p, q.data, keys_.data, kBlock, q.row, 1, keys_.row, nq, nk, s_.width, false,
                            causal(Causal::columns), diagonal});
    small_gemm(SmallGemm<V>{room_.ds, dy.data, values_.data, kBlock, dy.row, 1, values_.row, nq, nk, s_.width, false,
                            causal(Causal::columns), diagonal});
    for (std::int64_t i = 0; i < nq; ++i) {
      if (is_one_block(at_)) fetch_rows(i);
      row(i0 + i, i, j0, nk);
    }
    if (p_.dv)
      small_gemm(SmallGemm<V>{room_.dv, room_.p, dy.data, row_, 1, kBlock, dy.row, nk, s_.width, nq, !first,
                              causal(Causal::first_terms), diagonal});  // [ATT-4]
    if (p_.dk)
      small_gemm(SmallGemm<V>{room_.dk, room_.ds, q.data, row_, 1, kBlock, q.row, nk, s_.width, nq, !first,
                              causal(Causal::first_terms), diagonal});  // [ATT-6]
    if (!p_.dq) return;
    small_gemm(SmallGemm<V>{room_.dq + i0 * row_, room_.ds, k_rows_.data, row_, kBlock, 1, k_rows_.row, nq, s_.width,
                            nk, j0 > 0, causal(Causal::terms), diagonal});  // [ATT-6]
  }

  [[gnu::always_inline]] void fetch_rows(std::int64_t r) const {
    fetch_row<true>(p_.dq.data + at_.q(), s_.q_row, r, p_.dq ? at_.queries : 0, s_.width);
    fetch_row<true>(p_.dk.data + at_.k(), s_.k_row, r, p_.dk ? at_.keys : 0, s_.width);
    fetch_row<true>(p_.dv.data + at_.k(), s_.k_row, r, p_.dv ? at_.keys : 0, s_.width);
    fetch_row(p_.q + next_.q(), s_.q_row, r, next_.queries, s_.width);
    fetch_row(p_.k + next_.k(), s_.k_row, r, next_.keys, s_.width);
    fetch_row(p_.v + next_.k(), s_.k_row, r, next_.keys, s_.width);
    fetch_row(p_.dy + next_.y(), s_.y_row(), r, next_.queries, s_.width);
    fetch_row(p_.y + next_.y(), s_.y_row(), r, next_.queries, s_.width);
  }

  // Replaces q . k and dy . v by z * p and scale * ds.
  void row(std::int64_t query, std::int64_t i, std::int64_t j0, std::int64_t nk) {
    V *p = room_.p + i * kBlock, *ds = room_.ds + i * kBlock;
    const std::int64_t columns = keys_.row;
    const V scale = V(s_.scale), L = p_.L[at_.L() + query], delta = room_.delta[query];
    const std::uint64_t element = at_.random_element(query) + std::uint64_t(j0);
    const std::int32_t* first = first_queries_;
    if (s_.drop_below > 0) keep_.multiply(ds, element, nk);
    if (bias_) add_bias(p, bias_ + query * at_.keys + j0, nk, s_.scale);
    for_columns<V>(columns, [=, q = std::int32_t(query)](std::int64_t j) {
      const V probability = attention_math::p(p[j], scale, L);
      const V dscore = scale * attention_math::ds(probability, ds[j], delta);
      p[j] = q >= first[j] ? probability : V(0);
      ds[j] = q >= first[j] ? dscore : V(0);
    });
    if (s_.drop_below > 0) keep_.multiply(p, element, nk);
    if (p_.ds) {
      V* of_bias = p_.ds + at_.ds(int(query)) + j0;
      const V factor = 1 / scale;
      for_columns<V>(nk, [=](std::int64_t j) { of_bias[j] = factor * ds[j]; });
    }
  }

  void put(const GradOut<T>& out, std::int64_t offset, std::int64_t stride, const V* sums, std::int64_t n) const {
    if (!out) return;
    for (std::int64_t r = 0; r < n; ++r) {
      const GradOut<T> to{out.data + offset + r * stride, out.mode};
      const V* from = sums + r * row_;
      for_columns<V>(s_.width, [=](std::int64_t c) { to.put(c, from[c]); });
    }
  }

  const AttentionBackward<T>& p_;
  const AttentionShape& s_;
  const AttentionHead at_, next_;
  const std::int64_t row_;  // row pitch of the sums, in elements
  const BackwardRoom<V>& room_;
  const T* const bias_;  // of query 0 and key 0; null if there is none
  KeepFactors<V> keep_;
  Matrix<const V> keys_{}, values_{}, k_rows_{};
  std::int32_t first_queries_[kBlock];
};

}  // namespace

// One thread computes a whole head, so that dq is summed in a fixed order.
template <class T>
void attention_cpu(const AttentionBackward<T>& p) {
  using V = compute_t<T>;
  const std::int64_t heads = p.shape.segments * p.shape.heads;
  parallel_ranges(heads, elements_of_work(p.shape, heads), [&](std::int64_t begin, std::int64_t end) {
    const BackwardRoom<V> room(p.shape);
    for (std::int64_t head = begin; head < end; ++head) HeadBackward<T>(p, head, room).run();
  });
}

FOLDGRAD_INSTANTIATE(attention_cpu, AttentionBackward);

}  // namespace foldgrad
