#include "ops/activation/activation.h"

#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation_kernels.h"
#include "ops/activation/activation_passes.h"

namespace foldgrad {

void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias) {
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
                                                     .bias = g.bias.defined() ? g.bias.template data<T>() : nullptr,
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
  Tensor saved;  // y or x

  const char* name() const { return foldgrad::name(activation); }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), saved.dtype(), [&]<class T>(Type<T>) {
      activation_backward<T>(activation, /*has_bias=*/false,
                             {.dx = grads.out<T>(0), .dy = grads.dy(), .saved = saved, .bias = Tensor()});
    });
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const { return foldgrad::onnx(g, activation, in[0]); }
};

struct BiasActivationNode {
  Activation activation;
  Tensor saved, bias;  // y or x; bias is undefined where y is enough

  const char* name() const { return "bias_activation"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), saved.dtype(), [&]<class T>(Type<T>) {
      activation_backward<T>(
          activation, /*has_bias=*/true,
          {.dx = grads.out<T>(0), .dbias = grads.exact_out<T>(1), .dy = grads.dy(), .saved = saved, .bias = bias});
    });
  }
  void describe(Description& d) const {
    d.bias = 1;
    d.activates = true;
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    return foldgrad::onnx(g, activation, g.node("Add", {in[0], in[1]}));
  }
};

struct BiasActivationDropoutNode {
  Activation activation;
  double p;
  Random random;
  Tensor x, bias;

  const char* name() const { return "bias_activation_dropout"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
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

Var activate(const Var& xv, Activation activation) {
  const Tensor& x = xv.value();
  check_floating(name(activation), "x", x);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  activation_forward(name(activation), activation, y, x, Tensor());
  return xv.tape().record(y, {xv}, ActivationNode{.activation = activation, .saved = from_output(activation) ? y : x});
}

Var bias_activation(const Var& xv, const Var& biasv, Activation activation) {
  const Tensor &x = xv.value(), &bias = biasv.value();
  check_floating("bias_activation", "x", x, 1);
  check_operand("bias_activation", "bias", bias, {x.shape()[-1]}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  activation_forward("bias_activation", activation, y, x, bias);
  const bool from_y = from_output(activation);
  return xv.tape().record(
      y, {xv, biasv},
      BiasActivationNode{.activation = activation, .saved = from_y ? y : x, .bias = from_y ? Tensor() : bias});
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
