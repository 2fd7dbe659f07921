// Inverted dropout (Srivastava et al., JMLR 2014): training scales the kept elements, so inference needs no change.
//
//   [DO-1]  keep_i = [bits_i >= 2^16 q]        bits_i: the 16 bits of element i (a flat index) of sequence `random`
//           q: the multiple of 2^-16 below 1 that is nearest to p; the mean of keep_i / (1 - q) is exactly 1
//   [DO-2]  y_i    = keep_i x_i / (1 - q)
//   [DO-3]  dx_i   = keep_i dy_i / (1 - q)
//
//   bias_dropout_residual makes one pass over memory instead of three:
//   [DO-4]  y_rc   = residual_rc + keep_rc (x_rc + b_c) / (1 - q)
//   [DO-5]  dx_rc  = keep_rc dy_rc / (1 - q)            db_c = sum_r dx_rc            dresidual = dy
//
//   Stochastic depth (Huang et al., ECCV 2016), or drop path, drops the whole branch for randomly chosen samples n. A
//   sample consists of `path.rows` rows:
//   [DO-6]  m_n    = [bits_n >= 2^16 q] / (1 - q), with bits and q of `path` as in DO-1; for the rows r of sample n,
//           keep_rc / (1 - q) in DO-4 and DO-5 is multiplied by m_n
//
//   x, y: any shape. In bias_dropout_residual, x, y and residual are [..., C] seen as [R, C], and b is [C].
//   Saved: m; backward recomputes the mask of elements.
#pragma once
#include "engine/philox.h"
#include "engine/tape.h"

namespace foldgrad {

// Returns x itself if p = 0. Throws std::invalid_argument unless 0 <= p < 1.
Var dropout(const Var& x, double p, const Random& random);

struct DropPath {
  double p = 0;
  Random random = {};      // its stream must differ from the stream of the dropout
  std::int64_t rows = 1;   // each sample consists of this number of consecutive rows
  std::int64_t first = 0;  // index of the first sample of x in the sequence `random`
};

// Throws std::invalid_argument unless 0 <= p < 1, bias is [C], residual has x's shape, both have x's dtype and device,
// 0 <= path.p < 1, and, if path.p is not 0, R is a multiple of path.rows.
Var bias_dropout_residual(const Var& x, const Var& bias, const Var& residual, double p, const Random& random,
                          const DropPath& path = {});

}  // namespace foldgrad
