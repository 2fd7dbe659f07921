#include "ops/activation/bias_activation_dropout.h"

#include "engine/cpu/column_sums.h"
#include "ops/activation/bias_activation_dropout_kernels.h"

namespace foldgrad {
namespace {

constexpr const char* kOp = "bias_activation_dropout";

struct BiasActivationDropoutNode {
  Activation activation;
  double p;
  Random random;
  Tensor x, bias;

  const char* name() const { return kOp; }

  void backward(NodeGrads& grads) {
    dispatch_floating(kOp, x.dtype(), [&]<class T>(Type<T>) {
      with_activation(activation, [&](auto f) {
        const BiasActivationDropoutBackward<T, decltype(f)> k{.dx = grads.out<T>(0),
                                                              .dbias = grads.exact_out<T>(1),
                                                              .dy = grads.dy().data<T>(),
                                                              .x = x.data<T>(),
                                                              .bias = bias.data<T>(),
                                                              .rows = x.shape().without(-1).elements(),
                                                              .columns = x.shape()[-1],
                                                              .mask = Mask<compute_t<T>>::of(p, random)};
        FOLDGRAD_RUN(x.device(), elements_and_column_sums, k);
      });
    });
  }
};

}  // namespace

Var bias_activation_dropout(const Var& xv, const Var& biasv, Activation activation, double p, const Random& random) {
  FOLDGRAD_CHECK(p >= 0 && p < 1, "{}: p must be in [0, 1), got {}", kOp, p);
  if (p == 0) return bias_activation(xv, biasv, activation);
  const Tensor &x = xv.value(), &bias = biasv.value();
  check_floating(kOp, "x", x, 1);
  check_operand(kOp, "bias", bias, {x.shape()[-1]}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(kOp, x.dtype(), [&]<class T>(Type<T>) {
    with_activation(activation, [&](auto f) {
      const BiasActivationDropoutForward<T, decltype(f)> k{.y = y.data<T>(),
                                                           .x = x.data<T>(),
                                                           .bias = bias.data<T>(),
                                                           .rows = x.shape().without(-1).elements(),
                                                           .columns = x.shape()[-1],
                                                           .mask = Mask<compute_t<T>>::of(p, random)};
      FOLDGRAD_RUN(x.device(), matrix, k);
    });
  });
  return xv.tape().record(
      y, {xv, biasv},
      BiasActivationDropoutNode{.activation = activation, .p = p, .random = random, .x = x, .bias = bias});
}

}  // namespace foldgrad
