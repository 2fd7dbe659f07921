#include "ops/weighted_pool/weighted_pool.h"

#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // number of columns whose sums stay in registers

// Computes columns [first, first + width) of y_b, where `width` is at most kChunk.
template <class T>
void pool_columns(const WeightedPoolForward<T>& p, std::int64_t b, std::int64_t first, std::int64_t width) {
  using Value = compute_t<T>;
  Value sums[kChunk] = {};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    const T* x = p.x + (b * p.steps + t) * p.columns + first;
    const Value w = p.weight(b * p.steps + t);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) sums[c] += w * Value(x[c]);  // [WP-1]
  }
  const Value factor = p.factor;
  T* y = p.y + b * p.columns + first;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = T(sums[c] * factor);  // [RED-3]
}

}  // namespace

template <class T>
void weighted_pool_cpu(const WeightedPoolForward<T>& p) {
  for_rows_cpu(p.batch, p.steps * p.columns, [&p](std::int64_t b) {
    for (std::int64_t c = 0; c < p.columns; c += kChunk) pool_columns(p, b, c, std::min(kChunk, p.columns - c));
  });
}
template <class T>
void weighted_pool_cpu(const WeightedPoolBackward<T>& p) {
  using Value = compute_t<T>;
  for_rows_cpu(p.batch * p.steps, p.columns, [&p](std::int64_t row) {
    const WeightedPoolBackward<T> local = p;
    const std::int64_t b = row / p.steps;
    const T* dy = p.dy + b * p.columns;
    if (local.dw)
      local.dw.put(row, sum_cpu<Value>(p.columns, [=, x = p.x + row * p.columns](std::int64_t c) {
                     return local.share_of_dw(dy[c], x[c]);
                   }));
    if (!local.dx) return;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) local.dx.put(row * local.columns + c, local.dx_of(row, dy[c]));
  });
}

namespace {

// Returns true if the weights come from a softmax over the positions, so that each row sums to 1.
bool sums_to_one(const Graph& graph, int weights) {
  const std::int64_t steps = graph.values[weights].shape[-1];
  int p = graph.producer(weights);
  while (p >= 0 && graph.nodes[p].description.numbers == Description::Numbers::same)
    p = graph.producer(graph.nodes[p].operands[0]);
  return p >= 0 && graph.nodes[p].description.sums_to_one && graph.result_shape(p)[-1] == steps;
}

// The operands are x and, for weighted_pool, w.
struct PoolNode {
  Shape shape;  // of x
  Tensor x, w;  // undefined for a mean, whose backward pass needs neither

  const char* name() const { return w.defined() ? "weighted_pool" : "mean_pool"; }

  // Differentiates weighted_pool [WP-1] and mean_pool [RED-3]: computes dx [WP-2], dw [WP-3] and dx of mean_pool
  // [RED-4].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const WeightedPoolBackward<T> p{.dx = grads.out<T>(0),
                                      .dw = w.defined() ? grads.out<T>(1) : GradOut<T>{},
                                      .dy = dy.data<T>(),
                                      .x = data_or_null<T>(x),
                                      .w = data_or_null<T>(w),
                                      .factor = w.defined() ? Value(1) : Value(1) / Value(shape[1]),
                                      .batch = shape[0],
                                      .steps = shape[1],
                                      .columns = shape[2]};
      FOLDGRAD_RUN(dy.device(), weighted_pool, p);
    });
  }

  // A map passes since sum_t w_t (A x_t + B) = A sum_t w_t x_t + B sum_t w_t. If it adds B, the weights must sum to 1.
  void describe(Description& d) const {
    d.passes = [this](const Graph& graph, const GraphUse& use, ChannelMap& map) -> std::string {
      if (use.operand != 0) return "weighted_pool uses this tensor as its weights";
      if (map.place.axis != 2)
        return w.defined() ? "weighted_pool sums over the channels" : "mean_pool averages over the channels";
      if (w.defined() && map.map.adds() && !sums_to_one(graph, graph.nodes[use.node].operands[1]))
        return "weighted_pool multiplies the map's bias B by the sum of the pooling weights, which is 1 only for a "
               "softmax";
      map.place.axis = 1;
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      if (!w.defined())
        return g.node("ReduceMean", {in[0]}, {{"axes", OnnxGraph::Sizes{1}}, {"keepdims", std::int64_t(0)}});
      const std::string rows = g.node("Unsqueeze", {in[1], g.integers({1})});
      return g.node("Squeeze", {g.node("MatMul", {rows, in[0]}), g.integers({1})});
    };
  }
};

Var pool(const char* op, const std::vector<Var>& operands, const Tensor& w) {
  const Tensor& x = operands[0].value();
  check_floating(op, "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "{}: x must have 3 axes, got {}", op, x.shape());
  const std::int64_t batch = x.shape()[0], steps = x.shape()[1], columns = x.shape()[2];
  if (operands.size() == 2) check_operand(op, "w", w, {batch, steps}, x, "x");
  const Tensor y = Tensor::empty({batch, columns}, x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Value mean = steps ? Value(1) / Value(steps) : Value(0);
    const WeightedPoolForward<T> p{.y = y.data<T>(),
                                   .x = x.data<T>(),
                                   .w = data_or_null<T>(w),
                                   .factor = w.defined() ? Value(1) : mean,
                                   .batch = batch,
                                   .steps = steps,
                                   .columns = columns};
    FOLDGRAD_RUN(x.device(), weighted_pool, p);
  });
  const PoolNode node{.shape = x.shape(), .x = w.defined() ? x : Tensor(), .w = w};
  return operands[0].tape().record(y, operands, node);
}

}  // namespace

Var weighted_pool(const Var& x, const Var& w) { return pool("weighted_pool", {x, w}, w.value()); }
Var mean_pool(const Var& x) { return pool("mean_pool", {x}, Tensor()); }

}  // namespace foldgrad
