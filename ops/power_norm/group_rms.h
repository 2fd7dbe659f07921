// The scaling that PowerNorm puts in front of power_norm.h (its authors' "layer-scale"): each position and group of
// channels divided by its root mean square.
//
//   [PN-4]  y_pc = x_pc / sqrt((groups/C) sum over the channels of c's group of x_p^2 + eps)
//
//   x, y: [..., C]. Made of reshape and rms_norm, whose gradient is exact.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless `groups` divides C.
Var group_rms(const Var& x, std::int64_t groups, double eps = 1e-5);

}  // namespace foldgrad
