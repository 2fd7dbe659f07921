// Element-wise activations.
//
//   [ACT-7]  dx = dy y'
//   [ACT-8]  bias_activation: y_rc = activation(x_rc + b_c), dx = dy y', db_c = sum_r dx_rc
//   [ACT-9]  bias_activation_dropout: y_rc = keep_rc activation(x_rc + b_c) / (1 - q)
//            dx_rc = keep_rc dy_rc / (1 - q) activation'(x_rc + b_c), db_c = sum_r dx_rc
//
//   activation_math.h defines y and y' of each activation; keep and q are as in ops/dropout/dropout.h.
//   x, y: any shape. With a bias b [C], x and y are [..., C] seen as [R, C]. Saved: y if y' is a function of y,
//   otherwise x and b. With dropout, x and b are saved, and backward recomputes the mask.
#pragma once
#include "engine/philox.h"
#include "engine/tape.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

Var activate(const Var& x, Activation activation);

// Defines relu(x), tanh(x) and so on, one function per activation.
#define FOLDGRAD_FUNCTION(name, Struct) \
  inline Var name(const Var& x) { return activate(x, Activation::name); }
FOLDGRAD_ACTIVATIONS(FOLDGRAD_FUNCTION)
#undef FOLDGRAD_FUNCTION

// Computes activation(x + bias) in one pass. Throws std::invalid_argument unless bias is [C] with x's dtype and device.
Var bias_activation(const Var& x, const Var& bias, Activation activation);
// Equals bias_activation() followed by dropout(), bit for bit. Also throws std::invalid_argument unless 0 <= p < 1.
Var bias_activation_dropout(const Var& x, const Var& bias, Activation activation, double p, const Random& random);

}  // namespace foldgrad
