// The passes of activations on tensors, for operations that contain one: nothing is recorded.
#pragma once
#include "engine/dispatch.h"
#include "engine/grad_out.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

// y = activation(x + bias), or activation(x) where the bias is not defined. `op` is for messages. y may be x on the
// CPU. On CUDA, where x is loaded by instructions for read-only data (engine/cuda/pack.h), that throws
// std::invalid_argument.
void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias);

// Operands of a backward pass. With a bias, tensors are seen as rows of dbias' channels.
template <class T>
struct ActivationGradients {
  GradOut<T> dx;
  ParameterGradOut<T> dbias = {};
  const Tensor &dy, &saved, &bias;  // saved: y, or x (from_output()), and then the bias if there is one
};
template <class T>
void activation_backward(Activation activation, bool has_bias, const ActivationGradients<T>& gradients);

}  // namespace foldgrad
