// Activations, element by element.
//
//   [ACT-1]  relu       y = max(x, 0)                      y' = [y > 0]
//   [ACT-2]  tanh       y = tanh(x)                        y' = 1 - y^2
//   [ACT-3]  sigmoid    y = 1 / (1 + e^-x)                 y' = y (1 - y)
//   [ACT-4]  silu       y = x s, s = sigmoid(x)            y' = s (1 + x (1 - s))
//   [ACT-5]  gelu       y = x Phi(x)                       y' = Phi(x) + x phi(x)
//   [ACT-6]  gelu_tanh  y = x (1 + tanh(u)) / 2            y' = s (1 + x (1 - s) 2 u')
//                       u = sqrt(2/pi) (x + 0.044715 x^3), u' = sqrt(2/pi) (1 + 0.134145 x^2)
//                       s = (1 + tanh(u)) / 2 = sigmoid(2 u)
//   [ACT-7]  dx = dy y'
//   [ACT-8]  bias_activation: y_rc = activation(x_rc + b_c), dx = dy y', db_c = sum_r dx_rc
//
//   Phi(x) = (1 + erf(x / sqrt(2))) / 2 and phi(x) = e^(-x^2/2) / sqrt(2 pi): the normal distribution and its density.
//   Hendrycks, Gimpel: "Gaussian Error Linear Units", 2016, has [ACT-4] (there SiLU), [ACT-5] and [ACT-6].
//   x, y: any shape; of bias_activation [..., C] seen as [R, C], its b: [C].
//   Saved: y for relu, tanh and sigmoid; for the others x, and b.
#pragma once
#include "engine/tape.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

const char* name(Activation activation);  // "relu", ...

Var activate(const Var& x, Activation activation);
Var relu(const Var& x);
Var tanh(const Var& x);
Var sigmoid(const Var& x);
Var silu(const Var& x);
Var gelu(const Var& x);
Var gelu_tanh(const Var& x);

// One pass over memory instead of two. Throws std::invalid_argument unless bias is [C], of x's dtype and device.
Var bias_activation(const Var& x, const Var& bias, Activation activation);

}  // namespace foldgrad
