// Products of small matrices on one thread, for blocks of attention that stay in the cache: too small for a library's
// packing and threads to pay. Rows of B and C are read and written in whole vectors, elements of A one at a time, so A
// may just as well be transposed (a_row 1, a_term the length of its rows).
#pragma once
#include "engine/cpu/vector.h"

namespace foldgrad {

// The part of a product that may be left out, as the causal mask hides the entries (i, j) of a block of scores with
// j > i + diagonal.
enum class Causal : std::uint8_t {
  none,
  columns,     // C is such a block: its hidden entries are not computed, and hold anything afterwards
  terms,       // A is such a block, with zeros where it is hidden: terms j > i + diagonal are left out
  first_terms  // A is the transpose of such a block: terms i < j - diagonal are left out
};

// C = A B, or C += A B. C [m, n], A [m, k], B [k, n].
template <class V>
struct SmallGemm {
  V* c;
  const V *a, *b;
  std::int64_t c_row;          // elements from one row to the next
  std::int64_t a_row, a_term;  // elements from A(i, t) to A(i + 1, t) and to A(i, t + 1)
  std::int64_t b_row;
  std::int64_t m, n, k;  // columns up to padded(n) are read of B and written to C
  bool add = false;
  Causal causal = Causal::none;
  std::int64_t diagonal = 0;
};

template <class V>  // float or double
void small_gemm(const SmallGemm<V>& g);

// to = from^T: from [rows, columns] with whole vectors in every row; to [columns, rows], with zeros up to padded(rows)
// in every row, and padded(columns) rows.
template <class V>
void small_transpose(V* to, const V* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns);

}  // namespace foldgrad
