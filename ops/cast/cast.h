// Another element type.
//
//   [CAST-1]  y_i = x_i, rounded once to the nearest value of y's type; in bf16 all NaN are one, 0x7fff
//
//   backward: where x is f32, f64 or bf16,
//   [CAST-2]  dx_i = dy_i, rounded to x's type
//
//   Saved: nothing. In PyTorch: Tensor.to(dtype).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// From any type to f32, f64 or bf16; x itself where that is its type. Throws std::invalid_argument for other results.
Var cast(const Var& x, DType dtype);

}  // namespace foldgrad
