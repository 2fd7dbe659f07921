// Activations of tensors that are not recorded, for operations that include an activation.
#pragma once
#include "engine/dispatch.h"
#include "engine/grad_out.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

// Computes y = activation(x + bias), or activation(x) if bias is undefined. `op` begins error messages. On the CPU y
// may be x; on CUDA that throws std::invalid_argument because kernels load x as read-only data (engine/cuda/pack.h).
void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias);

// Operands of a backward pass. With a bias [C], tensors are seen as rows of C channels.
template <class T>
struct ActivationGradients {
  GradOut<T> dx;
  ParameterGradOut<T> dbias = {};
  const Tensor &dy, &saved, &bias;  // saved: y if from_output(), else x; bias: undefined if there is none or saved is y
};
template <class T>
void activation_backward(Activation activation, bool has_bias, const ActivationGradients<T>& gradients);

}  // namespace foldgrad
