// Permutes axes.
//
//   [PER-1]  y_(j_0, ..., j_n) = x_i  with  j_k = i_(axes_k):  axis k of y is axis axes_k of x
//
//   backward:
//   [PER-2]  dx is dy permuted the other way: axis axes_k of dx is axis k of dy
//
//   Saved: nothing. In PyTorch: Tensor.permute, followed by contiguous().
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless `axes` lists every axis of x once. Axes that stay adjacent are merged into one;
// at most 6 axes may remain.
Var permute(const Var& x, const std::vector<int>& axes);

}  // namespace foldgrad
