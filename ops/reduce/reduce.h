// Sums and means.
//
//   [RED-1]  sum(x)     y = sum_i x_i                          dx_i = dy
//   [RED-2]  mean(x)    y = (1/n) sum_i x_i over n elements    dx_i = dy / n
//
//   x: any shape; y: a scalar, f64 if x is f64, otherwise f32. The order of summation is fixed. Saved: nothing.
//   In PyTorch: x.sum(), x.mean().
#pragma once
#include "engine/tape.h"

namespace foldgrad {

Var sum(const Var& x);
// Throws std::invalid_argument if x has no elements.
Var mean(const Var& x);

}  // namespace foldgrad
