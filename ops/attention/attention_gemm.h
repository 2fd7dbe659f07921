// Products of small matrices on one thread, for blocks of attention that stay in the cache. The products are too small
// for a library's packing and threads to pay off. Rows of B and C are read and written as whole vectors. Elements of A
// are read one by one, so A may be transposed (a_row = 1, a_term = length of A's rows).
#pragma once
#include "engine/cpu/vector.h"

namespace foldgrad {

// The part of a product to skip. In a block of scores, the causal mask hides the entries (i, j) with j > i + diagonal.
enum class Causal : std::uint8_t {
  none,
  columns,     // C is a block of scores: hidden entries are not computed and are undefined afterwards
  terms,       // A is a block of scores, with zeros as hidden entries: terms j > i + diagonal are skipped
  first_terms  // A is the transpose of such a block of scores: terms i < j - diagonal are skipped
};

// The product C = A B, or C += A B if `add`, with A [m, k], B [k, n] and C [m, n].
template <class V>
struct SmallGemm {
  V* c;
  const V *a, *b;
  std::int64_t c_row;          // stride: elements from one row to the next
  std::int64_t a_row, a_term;  // strides: elements from A(i, t) to A(i + 1, t) and to A(i, t + 1)
  std::int64_t b_row;
  std::int64_t m, n, k;  // B is read, and C is written, up to column padded(n)
  bool add = false;
  Causal causal = Causal::none;
  std::int64_t diagonal = 0;
};

template <class V>  // float or double
void small_gemm(const SmallGemm<V>& g);

// Stores the transpose of `from` [rows, columns], whose rows must be whole vectors, in `to` [columns, rows]. `to` must
// have memory for padded(columns) rows; every row is padded with zeros to padded(rows).
template <class V>
void small_transpose(V* to, const V* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns);

}  // namespace foldgrad
