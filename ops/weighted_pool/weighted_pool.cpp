#include "ops/weighted_pool/weighted_pool.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

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

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const WeightedPoolBackward<T> p{.dx = grads.out<T>(0),
                                      .dw = grads.out<T>(1),
                                      .dy = grads.dy().data<T>(),
                                      .x = x.data<T>(),
                                      .w = w.data<T>(),
                                      .factor = 1,
                                      .batch = x.shape()[0],
                                      .steps = x.shape()[1],
                                      .columns = x.shape()[2]};
      FOLDGRAD_RUN(x.device(), weighted_pool, p);
    });
  }

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

}  // namespace

Var weighted_pool(const Var& xv, const Var& wv) {
  const Tensor &x = xv.value(), &w = wv.value();
  check_floating("weighted_pool", "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "weighted_pool: x must have 3 axes, got {}", x.shape());
  const std::int64_t B = x.shape()[0], T_ = x.shape()[1], C = x.shape()[2];
  check_operand("weighted_pool", "w", w, {B, T_}, x, "x");
  const Tensor y = Tensor::empty({B, C}, x.dtype(), x.device());
  dispatch_floating("weighted_pool", x.dtype(), [&]<class T>(Type<T>) {
    const WeightedPoolForward<T> p{
        .y = y.data<T>(), .x = x.data<T>(), .w = w.data<T>(), .factor = 1, .batch = B, .steps = T_, .columns = C};
    FOLDGRAD_RUN(x.device(), weighted_pool, p);
  });
  return xv.tape().record(y, {xv, wv}, WeightedPoolNode{.x = x, .w = w});
}

}  // namespace foldgrad
