// Activations, element by element.
//
//   [ACT-7]  dx = dy y'
//   [ACT-8]  bias_activation: y_rc = activation(x_rc + b_c), dx = dy y', db_c = sum_r dx_rc
//
//   Each activation, with y and y', is a struct of activation_math.h.
//   x, y: any shape; of bias_activation [..., C] seen as [R, C], its b: [C].
//   Saved: y where y' follows from it, otherwise x, and b.
#pragma once
#include "engine/tape.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

Var activate(const Var& x, Activation activation);

// relu(x), tanh(x) and so on, for every activation.
#define FOLDGRAD_FUNCTION(name, Struct) \
  inline Var name(const Var& x) { return activate(x, Activation::name); }
FOLDGRAD_ACTIVATIONS(FOLDGRAD_FUNCTION)
#undef FOLDGRAD_FUNCTION

// One pass over memory instead of two. Throws std::invalid_argument unless bias is [C], of x's dtype and device.
Var bias_activation(const Var& x, const Var& bias, Activation activation);

}  // namespace foldgrad
