#include "ops/activation/activation.h"

#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation_kernels.h"

namespace foldgrad {
namespace {

struct ActivationNode {
  Activation activation;
  Tensor saved;  // y or x

  const char* name() const { return foldgrad::name(activation); }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), saved.dtype(), [&]<class T>(Type<T>) {
      const ActivationBackward<T> p{.dx = grads.out<T>(0),
                                    .dy = grads.dy().data<T>(),
                                    .saved = saved.data<T>(),
                                    .n = saved.size(),
                                    .activation = activation};
      FOLDGRAD_RUN(saved.device(), activation, p);
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
      const BiasActivationBackward<T> p{.dx = grads.out<T>(0),
                                        .dbias = grads.exact_out<T>(1),
                                        .dy = grads.dy().data<T>(),
                                        .saved = saved.data<T>(),
                                        .bias = bias.defined() ? bias.data<T>() : nullptr,
                                        .rows = saved.shape().without(-1).elements(),
                                        .columns = saved.shape()[-1],
                                        .activation = activation};
      FOLDGRAD_RUN(saved.device(), activation, p);
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

}  // namespace

Var activate(const Var& xv, Activation activation) {
  const Tensor& x = xv.value();
  check_floating(name(activation), "x", x);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(name(activation), x.dtype(), [&]<class T>(Type<T>) {
    const ActivationForward<T> p{.y = y.data<T>(), .x = x.data<T>(), .n = x.size(), .activation = activation};
    FOLDGRAD_RUN(x.device(), activation, p);
  });
  return xv.tape().record(y, {xv}, ActivationNode{.activation = activation, .saved = from_output(activation) ? y : x});
}

Var bias_activation(const Var& xv, const Var& biasv, Activation activation) {
  const Tensor &x = xv.value(), &bias = biasv.value();
  check_floating("bias_activation", "x", x, 1);
  const std::int64_t columns = x.shape()[-1];
  check_operand("bias_activation", "bias", bias, {columns}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("bias_activation", x.dtype(), [&]<class T>(Type<T>) {
    const BiasActivationForward<T> p{.y = y.data<T>(),
                                     .x = x.data<T>(),
                                     .bias = bias.data<T>(),
                                     .rows = x.shape().without(-1).elements(),
                                     .columns = columns,
                                     .activation = activation};
    FOLDGRAD_RUN(x.device(), activation, p);
  });
  const bool from_y = from_output(activation);
  return xv.tape().record(
      y, {xv, biasv},
      BiasActivationNode{.activation = activation, .saved = from_y ? y : x, .bias = from_y ? Tensor() : bias});
}

}  // namespace foldgrad
