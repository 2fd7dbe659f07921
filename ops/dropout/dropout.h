// Inverted dropout (Srivastava et al., JMLR 2014; scaled while training, so that inference needs no change).
//
//   [DO-1]  keep_i = [bits_i >= 2^16 q]        bits_i: the 16 bits of element i, counted flat, of the sequence `random`
//           q: the multiple of 2^-16 next to p and below 1; the mean of keep_i / (1 - q) is exactly 1
//   [DO-2]  y_i    = keep_i x_i / (1 - q)
//   [DO-3]  dx_i   = keep_i dy_i / (1 - q)
//
//   bias_dropout_residual, one pass over memory instead of three:
//   [DO-4]  y_rc   = residual_rc + keep_rc (x_rc + b_c) / (1 - q)
//   [DO-5]  dx_rc  = keep_rc dy_rc / (1 - q)            db_c = sum_r dx_rc            dresidual = dy
//
//   Stochastic depth (Huang et al., ECCV 2016), or drop path, leaves out the whole branch for some samples n, of
//   `path.rows` rows each:
//   [DO-6]  m_n    = [bits_n >= 2^16 q] / (1 - q), with bits and q as in DO-1, those of `path`; for the rows r of
//           sample n, keep_rc / (1 - q) in DO-4 and DO-5 is multiplied by m_n
//
//   x, y: any shape; of bias_dropout_residual [..., C] seen as [R, C], like residual; b: [C].
//   Saved: m; backward makes the mask of elements again.
#pragma once
#include "engine/philox.h"
#include "engine/tape.h"

namespace foldgrad {

// Returns x itself if p = 0. Throws std::invalid_argument unless 0 <= p < 1.
Var dropout(const Var& x, double p, const Random& random);

struct DropPath {
  double p = 0;
  Random random = {};      // another stream than the dropout's
  std::int64_t rows = 1;   // consecutive rows in each sample
  std::int64_t first = 0;  // number of x's first sample in the sequence
};

// Throws std::invalid_argument unless 0 <= p < 1, bias is [C] and residual of x's shape, both of x's dtype and device,
// 0 <= path.p < 1, and x has whole samples where path.p is not 0.
Var bias_dropout_residual(const Var& x, const Var& bias, const Var& residual, double p, const Random& random,
                          const DropPath& path = {});

}  // namespace foldgrad
