// Gradients against differences of the loss.
#pragma once
#include <functional>

#include "engine/tape.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// A loss of shape [], recorded on the tape; the same at every call with the same parameters.
using LossOf = std::function<Var(Tape&)>;

// Draws one parameter of each kind ("decoder.layers.*.fc1.weight"), f64 on any device, and compares its gradient with
// central differences in two directions: along one element, and along all elements at once. The latter goes half along
// the gradient, so that tensors with many small elements count too, and half along random signs, so that a missing
// part shows. Gradients are left as computed.
CheckResult check_gradients(const std::vector<Parameter*>& parameters, const LossOf& loss, std::uint64_t seed = 1);

}  // namespace foldgrad
