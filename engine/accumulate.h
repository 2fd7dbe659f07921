// How the engine adds up the contributions to one gradient. Same shape and device.
#pragma once
#include "engine/grad_out.h"
#include "engine/tensor.h"

namespace foldgrad {

// target += source, of the same dtype.
void accumulate(const Tensor& target, const Tensor& source);
// The same, or target = source, for a source of bf16 and a target of f32.
void accumulate_bf16(const Tensor& target, GradMode mode, const Tensor& source);

}  // namespace foldgrad
