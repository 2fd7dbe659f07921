// target += source: how the engine adds up the contributions to one gradient. Same shape, dtype and device.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

void accumulate(const Tensor& target, const Tensor& source);

}  // namespace foldgrad
