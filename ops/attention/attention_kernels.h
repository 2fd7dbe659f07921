// The formulas of attention.h, one element at a time, and the parameters of its kernels on both devices.
#pragma once
#include <limits>

#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"
#include "engine/philox.h"

namespace foldgrad {
namespace attention_math {

// The score of a key that a query does not see.
template <class V>
constexpr V kHidden = -std::numeric_limits<V>::infinity();

// Returns p. q_dot_k is s / scale; -infinity, for hidden keys, gives 0.
template <class V>
FOLDGRAD_HD V p(V q_dot_k, V scale, V L) {
  return fast_exp(q_dot_k * scale - L);  // [ATT-1] [ATT-2]
}
// Returns L from the largest q_dot_k and the sum of exp(s_ij - scale max); infinite for a query without keys, so that
// every p is 0.
template <class V>
FOLDGRAD_HD V L(V max, V sum, V scale) {
  return sum == 0 ? -kHidden<V> : scale * max + std::log(sum);  // [ATT-2]
}
template <class V>
FOLDGRAD_HD V ds(V p, V z_dy_dot_v, V delta) {
  return p * (z_dy_dot_v - delta);  // [ATT-5]
}

}  // namespace attention_math

constexpr int kMaxHeadWidth = 128;

// The parameters that forward and backward of one call share.
struct AttentionShape {
  std::int64_t segments, heads, width;         // width: columns of one head, D
  const std::int64_t *q_offsets, *k_offsets;   // [segments + 1]: the first query of each, and its first key
  const std::int64_t* k_lengths;               // [segments]: keys that count, the first of each
  std::int64_t rows;                           // queries of all segments, Nq
  std::int64_t longest_queries, longest_keys;  // of one segment
  std::int64_t products;                       // of q . k, columns and hidden ones included
  std::int64_t q_row, k_row;                   // elements from one row to the next in q, and in k and v
  double scale;
  bool causal;
  std::uint32_t drop_below;  // 16 bits below are dropped; 0: no dropout
  double keep_factor;        // of what is kept
  Random random;

  FOLDGRAD_HD std::int64_t y_row() const { return heads * width; }
  FOLDGRAD_HD double z(std::uint64_t element) const {
    return drop_below == 0 || random.bits16(element) >= drop_below ? keep_factor : 0;
  }
};

// One head of one segment. Numbers have 32 bits where they can and offsets are computed on demand, because kernels are
// short of registers.
struct AttentionHead {
  const AttentionShape& s;
  std::int64_t number;  // segment heads + head
  int head;
  int q_begin, k_begin;         // its first rows
  int queries, keys, key_rows;  // key_rows: with those that do not count
  std::uint64_t element;        // first_element()
  bool causal;

  FOLDGRAD_HD AttentionHead(const AttentionShape& s, std::int64_t number) : s(s), number(number), causal(s.causal) {
    const std::int64_t segment = number / s.heads;
    head = int(number % s.heads);
    q_begin = int(s.q_offsets[segment]);
    k_begin = int(s.k_offsets[segment]);
    queries = int(s.q_offsets[segment + 1]) - q_begin;
    keys = int(s.k_lengths[segment]);
    key_rows = int(s.k_offsets[segment + 1]) - k_begin;
    element = first_element();
  }

  // Return the offsets of its first elements, in tensors with rows of q_row, k_row and y_row, and in L.
  FOLDGRAD_HD std::int64_t q() const { return q_begin * s.q_row + head * s.width; }
  FOLDGRAD_HD std::int64_t k() const { return k_begin * s.k_row + head * s.width; }
  FOLDGRAD_HD std::int64_t y() const { return q_begin * s.y_row() + head * s.width; }
  FOLDGRAD_HD std::int64_t L() const { return head * s.rows + q_begin; }
  // Returns how many of the first keys query i sees.
  FOLDGRAD_HD int visible(int i) const {
    const int n = i + 1 + key_rows - queries;
    return !causal || n > keys ? keys : n < 0 ? 0 : n;
  }
  // Returns the random element of key 0 for query 0, computed anew: for a kernel without registers to keep it.
  FOLDGRAD_HD std::uint64_t first_element() const {
    return (std::uint64_t(q_begin * s.heads) << 24) + std::uint64_t(std::int64_t(head) * queries * keys);  // [ATT-8]
  }
  // Returns the random element of key 0 for query i.
  FOLDGRAD_HD std::uint64_t random_element(int i) const { return element + std::uint64_t(std::int64_t(i) * keys); }
};

template <class T>
struct AttentionForward {
  T* y;                // [Nq, H D]
  compute_t<T>* L;     // [H, Nq]; +infinity for a query that sees no key
  const T *q, *k, *v;  // [Nq, q_row], [Nk, k_row] twice
  AttentionShape shape;
};

template <class T>
struct AttentionBackward {
  GradOut<T> dq, dk, dv;  // strides as q, k, v
  compute_t<T>* delta;    // [H, Nq], room for [ATT-5]
  const T *dy, *y;        // [Nq, H D]
  const T *q, *k, *v;     // [Nq, q_row], [Nk, k_row] twice
  const compute_t<T>* L;  // [H, Nq]
  AttentionShape shape;
};

FOLDGRAD_FASTER(cuda, attention_by_tensor_cores, AttentionForward);
FOLDGRAD_FASTER(cuda, attention_by_tensor_cores, AttentionBackward);
FOLDGRAD_DECLARE(attention, AttentionForward);
FOLDGRAD_DECLARE(attention, AttentionBackward);

}  // namespace foldgrad
