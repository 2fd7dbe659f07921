// Tensors by name: parameters, normalizer and optimizer state, file contents, model inputs.
#pragma once
#include <map>
#include <string>

#include "engine/tensor.h"

namespace foldgrad {

using NamedTensors = std::map<std::string, Tensor>;

// Returns a copy of each tensor. No copy shares memory with its original.
NamedTensors clone(const NamedTensors& tensors);
// Returns the tensors on `device`. Tensors that are already there are not copied.
NamedTensors to(const NamedTensors& tensors, Device device);

// Throws std::invalid_argument unless `from` has the names, shapes and dtypes of `own`. The message begins with `who`.
void require_alike(const std::string& who, const NamedTensors& own, const NamedTensors& from);
// Calls require_alike(), then copies the values of `from`, which may be on any device, into `own`.
void copy_into(const std::string& who, NamedTensors own, const NamedTensors& from);

}  // namespace foldgrad
