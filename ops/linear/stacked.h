// Tensors that are alike but for the length of their leading axis, one after another along it.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

// Returns all parts as one, a copy where there are several. Throws std::invalid_argument unless they are alike but for
// that length.
Tensor stacked(const std::vector<Tensor>& parts);

// Returns true where each part begins at the end of the one before, in the same storage.
bool lie_together(const std::vector<Tensor>& parts);

// Returns so many consecutive parts of the leading axis, of these lengths.
std::vector<Tensor> split(const Tensor& whole, const std::vector<std::int64_t>& lengths);

}  // namespace foldgrad
