// Adds up the contributions to one gradient.
#pragma once
#include "engine/grad_out.h"
#include "engine/tensor.h"

namespace foldgrad {

// target += source, or target = source, of the same shape and device. The source has the target's dtype, or is bf16 for
// a target of f32.
void accumulate(const Tensor& target, const Tensor& source, GradMode mode = GradMode::add);

}  // namespace foldgrad
