#include "ops/weighted_pool/weighted_pool.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

void check_3_axes(const char* op, const Tensor& x) {
  check_floating(op, "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "{}: x must have 3 axes, got {}", op, x.shape());
}

// Returns y. w: undefined for a mean.
Tensor pool(const char* op, const Tensor& x, const Tensor& w) {
  const std::int64_t steps = x.shape()[1];
  const Tensor y = Tensor::empty({x.shape()[0], x.shape()[2]}, x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Value mean = steps ? Value(1) / Value(steps) : Value(0);
    const WeightedPoolForward<T> p{.y = y.data<T>(),
                                   .x = x.data<T>(),
                                   .w = data_or_null<T>(w),
                                   .factor = w.defined() ? Value(1) : mean,
                                   .batch = x.shape()[0],
                                   .steps = steps,
                                   .columns = x.shape()[2]};
    FOLDGRAD_RUN(x.device(), weighted_pool, p);
  });
  return y;
}

// Puts dx and dw. shape: of x; x and w: undefined for a mean, which needs neither.
void pool_backward(const char* op, NodeGrads& grads, const Shape& shape, const Tensor& x, const Tensor& w) {
  dispatch_floating(op, grads.dy().dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const WeightedPoolBackward<T> p{.dx = grads.out<T>(0),
                                    .dw = w.defined() ? grads.out<T>(1) : GradOut<T>{},
                                    .dy = grads.dy().data<T>(),
                                    .x = data_or_null<T>(x),
                                    .w = data_or_null<T>(w),
                                    .factor = w.defined() ? Value(1) : Value(1) / Value(shape[1]),
                                    .batch = shape[0],
                                    .steps = shape[1],
                                    .columns = shape[2]};
    FOLDGRAD_RUN(grads.dy().device(), weighted_pool, p);
  });
}

// Returns true if every row of these weights sums to 1, whatever the numbers: they are rows of a softmax.
bool sums_to_one(const Graph& graph, int weights) {
  const std::int64_t steps = graph.values[weights].shape[-1];
  int p = graph.producer(weights);
  while (p >= 0 && graph.nodes[p].description.numbers == Description::Numbers::same)
    p = graph.producer(graph.nodes[p].operands[0]);
  return p >= 0 && graph.nodes[p].description.sums_to_one && graph.result_shape(p)[-1] == steps;
}

struct WeightedPoolNode {
  Tensor x, w;

  const char* name() const { return "weighted_pool"; }
  void backward(NodeGrads& grads) { pool_backward(name(), grads, x.shape(), x, w); }

  // sum_t w_t (A x_t + B) = A sum_t w_t x_t + B sum_t w_t
  std::string passes(const Graph& graph, const GraphUse& use, ChannelMap& map) const {
    if (use.operand != 0) return "weighted_pool takes it as weights";
    if (map.place.axis != 2) return "weighted_pool sums over the channels";
    if (map.map.adds() && !sums_to_one(graph, graph.nodes[use.node].operands[1]))
      return "weighted_pool multiplies B by the sum of its weights, which is 1 only for a softmax";
    map.place.axis = 1;
    return "";
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    const std::string rows = g.node("Unsqueeze", {in[1], g.integers({1})});
    return g.node("Squeeze", {g.node("MatMul", {rows, in[0]}), g.integers({1})});
  }
};

struct MeanPoolNode {
  Shape shape;  // of x

  const char* name() const { return "mean_pool"; }
  void backward(NodeGrads& grads) { pool_backward(name(), grads, shape, Tensor(), Tensor()); }

  std::string passes(const Graph&, const GraphUse&, ChannelMap& map) const {
    if (map.place.axis != 2) return "mean_pool averages over the channels";
    map.place.axis = 1;
    return "";
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    return g.node("ReduceMean", {in[0]}, {{"axes", OnnxGraph::Sizes{1}}, {"keepdims", std::int64_t(0)}});
  }
};

}  // namespace

Var weighted_pool(const Var& xv, const Var& wv) {
  const Tensor &x = xv.value(), &w = wv.value();
  check_3_axes("weighted_pool", x);
  check_operand("weighted_pool", "w", w, {x.shape()[0], x.shape()[1]}, x, "x");
  return xv.tape().record(pool("weighted_pool", x, w), {xv, wv}, WeightedPoolNode{.x = x, .w = w});
}

Var mean_pool(const Var& x) {
  check_3_axes("mean_pool", x.value());
  return x.tape().record(pool("mean_pool", x.value(), Tensor()), {x}, MeanPoolNode{.shape = x.shape()});
}

}  // namespace foldgrad
