#include "ops/activation/activation.h"

#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/activation/activation_kernels.h"
#include "ops/activation/activation_passes.h"

namespace foldgrad {

void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias) {
  FOLDGRAD_CHECK(x.device() == Device::cpu || !y.shares_storage_with(x), "{}: on CUDA, y must not share memory with x",
                 op);
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    with_activation(activation, [&](auto f) {
      if (bias.defined()) {
        const BiasActivationForward<T, decltype(f)> p{.y = y.data<T>(),
                                                      .x = x.data<T>(),
                                                      .bias = bias.data<T>(),
                                                      .rows = x.shape().without(-1).elements(),
                                                      .columns = x.shape()[-1]};
        FOLDGRAD_RUN(x.device(), matrix, p);
      } else {
        const ActivationForward<T, decltype(f)> p{.y = y.data<T>(), .x = x.data<T>(), .n = x.size()};
        FOLDGRAD_RUN(x.device(), elementwise, p);
      }
    });
  });
}

template <class T>
void activation_backward(Activation activation, bool has_bias, const ActivationGradients<T>& g) {
  with_activation(activation, [&](auto f) {
    if (has_bias) {
      const BiasActivationBackward<T, decltype(f)> p{.dx = g.dx,
                                                     .dbias = g.dbias,
                                                     .dy = g.dy.template data<T>(),
                                                     .saved = g.saved.template data<T>(),
                                                     .bias = data_or_null<T>(g.bias),
                                                     .rows = g.dy.shape().without(-1).elements(),
                                                     .columns = g.dy.shape()[-1]};
      FOLDGRAD_RUN(g.dy.device(), elements_and_column_sums, p);
    } else if (g.dx) {
      const ActivationBackward<T, decltype(f)> p{
          .dx = g.dx, .dy = g.dy.template data<T>(), .saved = g.saved.template data<T>(), .n = g.dy.size()};
      FOLDGRAD_RUN(g.dy.device(), elementwise, p);
    }
  });
}
template void activation_backward(Activation, bool, const ActivationGradients<float>&);
template void activation_backward(Activation, bool, const ActivationGradients<double>&);
template void activation_backward(Activation, bool, const ActivationGradients<bf16>&);

namespace {

struct ActivationNode {
  Activation activation;
  bool has_bias;
  Tensor saved, bias;  // `saved` is y or x; if it is y, `bias` is undefined

  const char* name() const { return has_bias ? "bias_activation" : foldgrad::name(activation); }

  // Differentiates bias_activation [ACT-8]: computes dx and db [ACT-8] or, without a bias, dx [ACT-7].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), saved.dtype(), [&]<class T>(Type<T>) {
      activation_backward<T>(activation, has_bias,
                             {.dx = grads.out<T>(0),
                              .dbias = has_bias ? grads.out<compute_t<T>>(1) : ParameterGradOut<T>{},
                              .dy = grads.dy(),
                              .saved = saved,
                              .bias = bias});
    });
  }
  void describe(Description& d) const {
    if (has_bias) d.bias = 1;
    d.activates = has_bias;
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      return foldgrad::onnx(g, activation, has_bias ? g.node("Add", {in[0], in[1]}) : in[0]);
    };
  }
};

struct BiasActivationDropoutNode {
  Activation activation;
  double p;
  Random random;
  Tensor x, bias;

  const char* name() const { return "bias_activation_dropout"; }

  // Differentiates bias_activation_dropout [ACT-9]: computes dx and db [ACT-9].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      with_activation(activation, [&](auto f) {
        const BiasActivationDropoutBackward<T, decltype(f)> k{.dx = grads.out<T>(0),
                                                              .dbias = grads.out<compute_t<T>>(1),
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
  void describe(Description&) const {}
};

// Computes and records y. The operands are x and, if there is one, the bias.
Var activated(const char* op, const std::vector<Var>& operands, Activation activation) {
  const bool has_bias = operands.size() == 2, from_y = from_output(activation);
  const Tensor &x = operands[0].value(), bias = has_bias ? operands[1].value() : Tensor();
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  activation_forward(op, activation, y, x, bias);
  return operands[0].tape().record(
      y, operands,
      ActivationNode{
          .activation = activation, .has_bias = has_bias, .saved = from_y ? y : x, .bias = from_y ? Tensor() : bias});
}

}  // namespace

Var activate(const Var& x, Activation activation) {
  check_floating(name(activation), "x", x.value());
  return activated(name(activation), {x}, activation);
}

Var bias_activation(const Var& x, const Var& bias, Activation activation) {
  check_floating("bias_activation", "x", x.value(), 1);
  check_operand("bias_activation", "bias", bias.value(), {x.shape()[-1]}, x.value(), "x");
  return activated("bias_activation", {x, bias}, activation);
}

Var bias_activation_dropout(const Var& xv, const Var& biasv, Activation activation, double p, const Random& random) {
  constexpr const char* kOp = "bias_activation_dropout";
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
