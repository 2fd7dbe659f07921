// Forward and backward passes of activations on plain tensors, without a tape, for operations with a fused activation.
#pragma once
#include "engine/dispatch.h"
#include "engine/grad_out.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

// Computes y = activation(x + bias), or activation(x) if bias is undefined. Error messages begin with `op`. On the CPU,
// y may be x; on CUDA, this throws std::invalid_argument because kernels load x as read-only data (engine/cuda/pack.h).
void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias);

// Operands of the backward pass of an activation. With a bias [C], all tensors are seen as rows of C channels.
template <class T>
struct ActivationGradients {
  GradOut<T> dx;
  ParameterGradOut<T> dbias = {};
  // `saved` is y if from_output(), otherwise x. `bias` is undefined unless there is a bias and `saved` is x.
  const Tensor &dy, &saved, &bias;
};
template <class T>
void activation_backward(Activation activation, bool has_bias, const ActivationGradients<T>& gradients);

}  // namespace foldgrad
