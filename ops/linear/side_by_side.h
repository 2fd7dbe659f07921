// Tensors that lie one behind the other in memory, so that one kernel can take them for a single one: the weights of
// several linear layers of one input, and their gradients.
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

// Whether each begins where the one before it ends, in one storage.
bool side_by_side(const std::vector<Tensor>& tensors);

// Tensors of these shapes that do, of undetermined values.
std::vector<Tensor> empty_side_by_side(const std::vector<Shape>& shapes, DType dtype, Device device);

}  // namespace foldgrad
