// Converts to another floating-point type.
//
//   [CAST-1]  y_i = x_i, rounded once to the nearest value of y's type; every NaN in bf16 is 0x7fff
//
//   backward:
//   [CAST-2]  dx_i = dy_i, rounded to x's type
//
//   Saved: nothing. In PyTorch: Tensor.to(dtype).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Converts between f32, f64 and bf16; returns x itself if it already has this dtype. Throws std::invalid_argument for
// other types.
Var cast(const Var& x, DType dtype);

}  // namespace foldgrad
