// Gradients against differences of the loss.
#pragma once
#include <functional>

#include "engine/tape.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// A loss of shape [], recorded on the tape; the same at every call with the same parameters.
using LossOf = std::function<Var(Tape&)>;

// Of each kind of parameter ("decoder.layers.*.fc1.weight") one is drawn, f64 on any device, and its gradient compared
// with central differences in two directions: of one element, and of all its elements at once. The latter goes half
// along the gradient, so that tensors whose every element has a small one count too, and half along random signs, so
// that a part that is missing shows. Gradients are left as computed.
CheckResult check_gradients(const std::vector<Parameter*>& parameters, const LossOf& loss, std::uint64_t seed = 1);

}  // namespace foldgrad
