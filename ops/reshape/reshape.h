// Another shape for the same values.
//
//   [RES-1]  y has x's elements in the same order; dx is dy in x's shape
//
//   No element moves: y is a view of x's memory, and dy becomes dx. Saved: nothing. In PyTorch: Tensor.view.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Finds one size from the others if it is -1. Throws std::invalid_argument unless the sizes describe x's elements.
Var reshape(const Var& x, const std::vector<std::int64_t>& sizes);

}  // namespace foldgrad
