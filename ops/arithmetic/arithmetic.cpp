#include "ops/arithmetic/arithmetic.h"

#include "engine/cpu/column_sums.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

void run_scale(const Tensor& y, GradMode mode, const Tensor& a, double s) {
  dispatch_floating("scale", a.dtype(), [&]<class T>(Type<T>) {
    const Scale<T> p{.y = {y.data<T>(), mode}, .a = a.data<T>(), .n = a.size(), .s = compute_t<T>(s)};
    FOLDGRAD_RUN(a.device(), elementwise, p);
  });
}
void scale_dy(NodeGrads& grads, int operand, double s) {
  if (!grads.wanted(operand)) return;
  const auto [place, mode] = grads.place(operand, grads.dy().dtype());
  run_scale(place, mode, grads.dy(), s);
}

struct AddNode {
  const char* name() const { return "add"; }
  // Differentiates add [AR-1]: computes da and db [AR-1].
  void backward(NodeGrads& grads) {
    grads.pass_dy(0);  // [AR-1]
    grads.pass_dy(1);
  }
  void describe(Description& d) const {
    d.streams = {0, 1};
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Add", {in[0], in[1]}); };
  }
};

struct SubNode {
  const char* name() const { return "sub"; }
  // Differentiates sub [AR-2]: computes da and db [AR-2].
  void backward(NodeGrads& grads) {
    scale_dy(grads, 1, -1);  // [AR-2]
    grads.pass_dy(0);
  }
  void describe(Description& d) const {
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Sub", {in[0], in[1]}); };
  }
};

struct MulNode {
  Tensor a, b;

  const char* name() const { return "mul"; }
  // Differentiates mul [AR-3]: computes da and db [AR-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), a.dtype(), [&]<class T>(Type<T>) {
      const MulBackward<T> p{.da = grads.out<T>(0),
                             .db = grads.out<T>(1),
                             .dy = grads.dy().data<T>(),
                             .a = a.data<T>(),
                             .b = b.data<T>(),
                             .n = a.size()};
      FOLDGRAD_RUN(a.device(), elementwise, p);
    });
  }
  void describe(Description& d) const {
    d.passes = [](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {
      if (map.map.centered) return "an elementwise product does not commute with a map that mixes channels";
      return map.map.adds()
                 ? "an elementwise product also multiplies the map's bias B, but folding would add B after the product"
                 : "";
    };
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Mul", {in[0], in[1]}); };
  }
};

struct ScaleNode {
  double s;

  const char* name() const { return "scale"; }
  // Differentiates scale [AR-4]: computes da [AR-4].
  void backward(NodeGrads& grads) { scale_dy(grads, 0, s); }
  void describe(Description& d) const {
    d.passes = [this](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {
      for (double& b : map.map.B) b *= s;
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) { return g.node("Mul", {in[0], g.number(s)}); };
  }
};

struct AddBiasNode {
  const char* name() const { return "add_bias"; }
  // Differentiates add_bias [AR-5]: computes dx and db [AR-5].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    if (grads.wanted(1))
      dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
        const ColumnTotals<T> dbias{.out = grads.out<compute_t<T>>(1),
                                    .values = dy.data<T>(),
                                    .rows = dy.shape().without(-1).elements(),
                                    .columns = dy.shape()[-1]};
        FOLDGRAD_RUN(dy.device(), column_sums, dbias);
      });
    grads.pass_dy(0);  // [AR-5]
  }
  void describe(Description& d) const {
    d.bias = 1;
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Add", {in[0], in[1]}); };
  }
};

template <class Formula>
Tensor binary(const char* op, const Tensor& a, const Tensor& b) {
  check_floating(op, "a", a);
  check_operand(op, "b", b, a.shape(), a, "a");
  const Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  dispatch_floating(op, a.dtype(), [&]<class T>(Type<T>) {
    const BinaryForward<T, Formula> p{.y = y.data<T>(), .a = a.data<T>(), .b = b.data<T>(), .n = a.size()};
    FOLDGRAD_RUN(a.device(), elementwise, p);
  });
  return y;
}

}  // namespace

Var add(const Var& a, const Var& b) {
  return a.tape().record(binary<Plus>("add", a.value(), b.value()), {a, b}, AddNode{});
}
Var sub(const Var& a, const Var& b) {
  return a.tape().record(binary<Minus>("sub", a.value(), b.value()), {a, b}, SubNode{});
}
Var mul(const Var& a, const Var& b) {
  return a.tape().record(binary<Times>("mul", a.value(), b.value()), {a, b}, MulNode{.a = a.value(), .b = b.value()});
}

Var scale(const Var& av, double s) {
  const Tensor& a = av.value();
  check_floating("scale", "a", a);
  const Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  run_scale(y, GradMode::set, a, s);
  return av.tape().record(y, {av}, ScaleNode{.s = s});
}

Var add_bias(const Var& xv, const Var& biasv) {
  const Tensor &x = xv.value(), &bias = biasv.value();
  check_floating("add_bias", "x", x, 1);
  const std::int64_t columns = x.shape()[-1];
  check_operand("add_bias", "bias", bias, {columns}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("add_bias", x.dtype(), [&]<class T>(Type<T>) {
    const AddBiasForward<T> p{.y = y.data<T>(),
                              .x = x.data<T>(),
                              .bias = bias.data<T>(),
                              .rows = x.shape().without(-1).elements(),
                              .columns = columns};
    FOLDGRAD_RUN(x.device(), matrix, p);
  });
  return xv.tape().record(y, {xv, biasv}, AddBiasNode{});
}

}  // namespace foldgrad
