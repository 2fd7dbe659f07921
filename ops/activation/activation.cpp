#include "ops/activation/activation.h"

#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {

void activation_forward(const char* op, Activation activation, const Tensor& y, const Tensor& x, const Tensor& bias,
                        const ActivationDropout& dropout) {
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    with_activation(activation, [&](auto f) {
      if (bias.defined()) {
        const BiasActivationForward<T, decltype(f)> p{.y = y.data<T>(),
                                                      .x = x.data<T>(),
                                                      .bias = bias.data<T>(),
                                                      .rows = x.shape().without(-1).elements(),
                                                      .columns = x.shape()[-1],
                                                      .mask = Mask<compute_t<T>>::of(dropout.p, dropout.random)};
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
                                                     .saved_y = !g.bias.defined(),
                                                     .rows = g.dy.shape().without(-1).elements(),
                                                     .columns = g.dy.shape()[-1],
                                                     .mask = Mask<compute_t<T>>::of(g.dropout.p, g.dropout.random)};
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
  ActivationDropout dropout;
  Tensor saved, bias;  // y or x; bias is undefined where y is enough

  const char* name() const { return dropout.p == 0 ? "bias_activation" : "bias_activation_dropout"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), saved.dtype(), [&]<class T>(Type<T>) {
      activation_backward<T>(activation, /*has_bias=*/true,
                             {.dx = grads.out<T>(0),
                              .dbias = grads.exact_out<T>(1),
                              .dy = grads.dy(),
                              .saved = saved,
                              .bias = bias,
                              .dropout = dropout});
    });
  }
  void describe(Description& d) const {
    d.bias = 1;
    d.activates = true;
    d.dropout = dropout.p;
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    return foldgrad::onnx(g, activation, g.node("Add", {in[0], in[1]}));
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

Var bias_activation(const Var& x, const Var& bias, Activation activation) {
  return bias_activation_dropout(x, bias, activation, 0, {});
}

Var bias_activation_dropout(const Var& xv, const Var& biasv, Activation activation, double p, const Random& random) {
  const Tensor &x = xv.value(), &bias = biasv.value();
  const char* const op = p == 0 ? "bias_activation" : "bias_activation_dropout";
  FOLDGRAD_CHECK(p >= 0 && p < 1, "{}: p must be in [0, 1), got {}", op, p);
  check_floating(op, "x", x, 1);
  check_operand(op, "bias", bias, {x.shape()[-1]}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const ActivationDropout dropout{p, random};
  activation_forward(op, activation, y, x, bias, dropout);
  const bool from_y = p == 0 && from_output(activation);
  return xv.tape().record(
      y, {xv, biasv},
      BiasActivationNode{
          .activation = activation, .dropout = dropout, .saved = from_y ? y : x, .bias = from_y ? Tensor() : bias});
}

}  // namespace foldgrad
