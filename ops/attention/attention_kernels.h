// The formulas of attention.h for one element, and the parameters of its kernels on both devices.
#pragma once
#include <limits>

#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"
#include "engine/philox.h"

namespace foldgrad {
namespace attention_math {

// The score of a key that is hidden from a query.
template <class V>
constexpr V kHidden = -std::numeric_limits<V>::infinity();

// Returns p, which is 0 for hidden keys, since their q_dot_k is -infinity.
template <class V>
FOLDGRAD_HD V p(V q_dot_k, V scale, V L) {
  return fast_exp(q_dot_k * scale - L);  // [ATT-1] [ATT-2]
}
// Computes L from `max`, the largest q_dot_k, and `sum`, the sum of exp(s_ij - scale * max). Returns infinity for a
// query without keys, which makes every p 0.
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

// The parameters that the forward and the backward kernels share.
struct AttentionShape {
  std::int64_t segments, heads, width;         // width is the number of columns of one head, D
  const std::int64_t *q_offsets, *k_offsets;   // [segments + 1]: index of each segment's first query and first key
  std::int64_t rows;                           // Nq, the number of queries in all segments
  std::int64_t longest_queries, longest_keys;  // the largest numbers of queries and of keys in one segment
  std::int64_t products;                       // number of multiplications for all q . k, including hidden keys
  std::int64_t q_row, k_row;                   // strides: elements from one row to the next, in q, and in k and v
  std::int64_t bias_groups;                    // G, the number of biases; 1 without a bias
  double scale;
  bool causal;
  std::uint32_t drop_below;  // a probability is dropped if its 16 bits are below this number; 0 without dropout
  double keep_factor;        // multiplies the kept probabilities
  Random random;

  FOLDGRAD_HD std::int64_t y_row() const { return heads * width; }
  FOLDGRAD_HD double z(std::uint64_t element) const {
    return drop_below == 0 || random.bits16(element) >= drop_below ? keep_factor : 0;
  }
};

// One head of one segment. To save registers, integers have 32 bits where possible, and offsets are not stored.
struct AttentionHead {
  const AttentionShape& s;
  std::int64_t number;  // index of the head over all segments: segment * heads + head
  int head;
  int q_begin, k_begin;  // index of the head's first row in q, and in k and v
  int queries, keys;
  std::uint64_t element;  // index of the first random number, from first_element()
  bool causal;

  FOLDGRAD_HD AttentionHead(const AttentionShape& s, std::int64_t number) : s(s), number(number), causal(s.causal) {
    const std::int64_t segment = number / s.heads;
    head = int(number % s.heads);
    q_begin = int(s.q_offsets[segment]);
    k_begin = int(s.k_offsets[segment]);
    queries = int(s.q_offsets[segment + 1]) - q_begin;
    keys = int(s.k_offsets[segment + 1]) - k_begin;
    element = first_element();
  }

  // These return the offsets of the head's first elements: in q, in k and v, in y, and in L.
  FOLDGRAD_HD std::int64_t q() const { return q_begin * s.q_row + head * s.width; }
  FOLDGRAD_HD std::int64_t k() const { return k_begin * s.k_row + head * s.width; }
  FOLDGRAD_HD std::int64_t y() const { return q_begin * s.y_row() + head * s.width; }
  FOLDGRAD_HD std::int64_t L() const { return head * s.rows + q_begin; }
  // These return the offsets of query i and key 0 in the bias and in ds.
  FOLDGRAD_HD std::int64_t bias(int i) const {
    return ((number / s.heads % s.bias_groups * s.heads + head) * queries + i) * keys;
  }
  FOLDGRAD_HD std::int64_t ds(int i) const { return (number * queries + i) * keys; }
  // Returns the number of keys that query i sees, starting at key 0.
  FOLDGRAD_HD int visible(int i) const {
    const int n = i + 1 + keys - queries;
    return !causal || n > keys ? keys : n < 0 ? 0 : n;
  }
  // Returns the index of the random number of query 0 and key 0, for kernels that lack the registers to keep `element`.
  FOLDGRAD_HD std::uint64_t first_element() const {
    return (std::uint64_t(q_begin * s.heads) << 24) + std::uint64_t(std::int64_t(head) * queries * keys);  // [ATT-8]
  }
  // Returns the index of the random number of query i and key 0.
  FOLDGRAD_HD std::uint64_t random_element(int i) const { return element + std::uint64_t(std::int64_t(i) * keys); }
};

template <class T>
struct AttentionForward {
  T* y;                // [Nq, H D]
  compute_t<T>* L;     // [H, Nq]; +infinity for a query that sees no key
  const T *q, *k, *v;  // [Nq, q_row], [Nk, k_row], [Nk, k_row]
  const T* bias;       // [G, H, T, T]; null if there is none
  AttentionShape shape;
};

template <class T>
struct AttentionBackward {
  GradOut<T> dq, dk, dv;  // these have the strides of q, k and v
  compute_t<T>* delta;    // [H, Nq], scratch memory for [ATT-5]
  compute_t<T>* ds;       // [segments, H, T, T], for [ATT-9]; null if the bias needs no gradient
  const T *dy, *y;        // [Nq, H D]
  const T *q, *k, *v;     // [Nq, q_row], [Nk, k_row], [Nk, k_row]
  const T* bias;          // [G, H, T, T]; null if there is none
  const compute_t<T>* L;  // [H, Nq]
  AttentionShape shape;
};

FOLDGRAD_FASTER(attention_by_tensor_cores, AttentionForward);
FOLDGRAD_FASTER(attention_by_tensor_cores, AttentionBackward);
FOLDGRAD_DECLARE(attention, AttentionForward);
FOLDGRAD_DECLARE(attention, AttentionBackward);

}  // namespace foldgrad
