// Tensors by name: parameters, states of normalizers and optimizers, what files hold, a model's inputs.
#pragma once
#include <map>
#include <string>

#include "engine/tensor.h"

namespace foldgrad {

using NamedTensors = std::map<std::string, Tensor>;

// Copies each tensor; the copies share nothing with the originals.
NamedTensors clone(const NamedTensors& tensors);
// Moves tensors to `device`; those already there are not copied.
NamedTensors to(const NamedTensors& tensors, Device device);

// Throws std::invalid_argument unless `from` has the names of `own` and no others, with the same shapes and dtypes.
// `who` begins the message.
void require_alike(const std::string& who, const NamedTensors& own, const NamedTensors& from);
// Writes the values of `from` into the tensors of `own`, from whatever device. Throws as require_alike() does, before
// anything is written.
void copy_into(const std::string& who, NamedTensors own, const NamedTensors& from);

}  // namespace foldgrad
