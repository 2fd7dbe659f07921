// Layer normalisation at inference, on the CPU and without a tape, and what is left of it where the mean is not taken
// off (rms_norm), nothing is scaled (center_norm), or neither (an affine map).
//
//   y_rc = A_c xhat_rc + B_c       xhat as in layer_norm.h, with mu = 0 where rows are not centered and rstd = 1 where
//                                  they are not scaled
#pragma once
#include <cstdint>

namespace foldgrad {

// X: of the arithmetic.
template <class X>
struct RowNorm {
  const X *A, *B;  // [columns]
  std::int64_t columns;
  bool center, scale;
  X eps;
};

// x, y: [rows, columns], perhaps the same. Y is X, or bf16 with X = float.
template <class X, class Y>
void row_norm(const RowNorm<X>& p, std::int64_t rows, const X* x, Y* y);

}  // namespace foldgrad
