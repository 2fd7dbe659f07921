// Returns the elements of x in another shape.
//
//   [RES-1]  y = x's elements in the same order    dx = dy in x's shape
//
//   Nothing is copied: y is a view of x's memory, and dy becomes dx. Saved: nothing. In PyTorch: Tensor.view.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// One size may be -1; it is then computed from the other sizes. Throws std::invalid_argument unless the shape has as
// many elements as x.
Var reshape(const Var& x, const std::vector<std::int64_t>& sizes);

}  // namespace foldgrad
