// Tensors by name: parameters, states of normalizers and optimizers, contents of files, inputs of models.
#pragma once
#include <map>
#include <string>

#include "engine/tensor.h"

namespace foldgrad {

using NamedTensors = std::map<std::string, Tensor>;

// Copies each tensor; no copy shares memory with its original.
NamedTensors clone(const NamedTensors& tensors);
// Moves tensors to `device`; those already there are not copied.
NamedTensors to(const NamedTensors& tensors, Device device);

// Throws std::invalid_argument, beginning with `who`, unless `from` has the names, shapes and dtypes of `own`.
void require_alike(const std::string& who, const NamedTensors& own, const NamedTensors& from);
// Copies the values of `from`, on any device, into the tensors of `own`. Before that it throws as require_alike() does.
void copy_into(const std::string& who, NamedTensors own, const NamedTensors& from);

}  // namespace foldgrad
