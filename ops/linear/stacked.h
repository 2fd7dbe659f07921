// Concatenates tensors that differ only in the length of the leading axis, and splits the result again.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

// Returns all parts as one tensor, which is a copy unless there is only one part. Throws std::invalid_argument unless
// the parts differ only in the length of the leading axis.
Tensor stacked(const std::vector<Tensor>& parts);

// Cuts the leading axis into consecutive parts of these lengths.
std::vector<Tensor> split(const Tensor& whole, const std::vector<std::int64_t>& lengths);

}  // namespace foldgrad
