#pragma once
#include "engine/kernels.h"
#include "engine/philox.h"
#include "ops/attention/attention_math.h"

namespace foldgrad {

constexpr int kMaxHeadWidth = 128;

// What forward and backward of one call share.
struct AttentionShape {
  std::int64_t batch, heads, queries, keys, width;  // width: columns of one head, D
  std::int64_t q_row, k_row;                        // elements from one position to the next in q, and in k and v
  double scale;
  bool causal;
  std::uint32_t drop_below;  // 16 bits below are dropped; 0: no dropout
  double keep_factor;        // DropChoice's
  Random random;

  FOLDGRAD_HD std::int64_t y_row() const { return heads * width; }
  FOLDGRAD_HD std::int64_t products() const { return batch * heads * queries * keys * width; }  // of q . k
  // How many of the first keys query i sees as far as `causal` goes.
  FOLDGRAD_HD std::int64_t visible(std::int64_t i) const {
    const std::int64_t n = i + 1 + keys - queries;
    return !causal || n > keys ? keys : n < 0 ? 0 : n;
  }
  // Of key 0 for query i of the head number b heads + h.
  FOLDGRAD_HD std::uint64_t random_element(std::int64_t head, std::int64_t i) const {
    return std::uint64_t((head * queries + i) * keys);
  }
  FOLDGRAD_HD double z(std::uint64_t element) const {
    return drop_below == 0 || random.bits16(element) >= drop_below ? keep_factor : 0;
  }
};

// One head of one batch entry: offsets of its first elements.
struct AttentionHead {
  std::int64_t number;
  std::int64_t q, k, y;  // in tensors with rows of q_row, k_row and y_row
  std::int64_t L, mask;

  FOLDGRAD_HD AttentionHead(const AttentionShape& s, std::int64_t number) : number(number) {
    const std::int64_t b = number / s.heads, column = number % s.heads * s.width;
    q = b * s.queries * s.q_row + column;
    k = b * s.keys * s.k_row + column;
    y = b * s.queries * s.y_row() + column;
    L = number * s.queries;
    mask = b * s.keys;
  }
};

template <class T>
struct AttentionForward {
  T* y;                      // [B, Tq, H D]
  compute_t<T>* L;           // [B, H, Tq]; +infinity for a query that sees no key
  const T *q, *k, *v;        // [B, Tq, q_row], [B, Tk, k_row] twice
  const std::uint8_t* mask;  // [B, Tk], or null
  AttentionShape shape;
};

template <class T>
struct AttentionBackward {
  GradOut<T> dq, dk, dv;     // strides as q, k, v
  compute_t<T>* delta;       // [B, H, Tq], room for [ATT-5]
  const T *dy, *y;           // [B, Tq, H D]
  const T *q, *k, *v;        // [B, Tq, q_row], [B, Tk, k_row] twice
  const compute_t<T>* L;     // [B, H, Tq]
  const std::uint8_t* mask;  // [B, Tk], or null
  AttentionShape shape;
};

FOLDGRAD_DECLARE(attention, AttentionForward);
FOLDGRAD_DECLARE(attention, AttentionBackward);

}  // namespace foldgrad
