#include "ops/reduce/reduce.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/reduce/reduce_kernels.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

struct SumNode {
  const char* op;  // "sum" or "mean"
  DType dtype;     // of x; x itself is not needed
  Device device;
  std::int64_t n;
  double scale;

  const char* name() const { return op; }

  void backward(NodeGrads& grads) {
    dispatch_floating(op, dtype, [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const SumBackward<T> p{.dx = grads.out<T>(0), .dy = grads.dy().data<Value>(), .n = n, .scale = Value(scale)};
      FOLDGRAD_RUN(device, elementwise, p);
    });
  }
};

Var scaled_sum(const char* op, const Var& xv, double scale) {
  const Tensor& x = xv.value();
  return dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const std::int64_t parts = SumForward<T>::parts_of(x.size());
    const Tensor y = Tensor::empty({}, dtype_of<Value>, x.device());
    const Tensor partials = Tensor::empty({parts}, dtype_of<Value>, x.device());
    const SumForward<T> p{.y = y.data<Value>(),
                          .partials = partials.data<Value>(),
                          .x = x.data<T>(),
                          .n = x.size(),
                          .parts = parts,
                          .scale = Value(scale)};
    FOLDGRAD_RUN(x.device(), reduce, p);
    return xv.tape().record(y, {xv},
                            SumNode{.op = op, .dtype = x.dtype(), .device = x.device(), .n = x.size(), .scale = scale});
  });
}

struct MeanPoolNode {
  DType dtype;  // of x; x itself is not needed
  Shape shape;

  const char* name() const { return "mean_pool"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), dtype, [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const WeightedPoolBackward<T> p{.dx = grads.out<T>(0),
                                      .dw = {},
                                      .dy = grads.dy().data<T>(),
                                      .x = nullptr,
                                      .w = nullptr,
                                      .factor = Value(1) / Value(shape[1]),
                                      .batch = shape[0],
                                      .steps = shape[1],
                                      .columns = shape[2]};
      FOLDGRAD_RUN(grads.dy().device(), weighted_pool, p);
    });
  }

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

Var sum(const Var& x) {
  check_floating("sum", "x", x.value());
  return scaled_sum("sum", x, 1);
}

Var mean(const Var& x) {
  check_floating("mean", "x", x.value());
  FOLDGRAD_CHECK(x.value().size() > 0, "mean: x must have elements, got {}", x.shape());
  return scaled_sum("mean", x, 1 / double(x.value().size()));
}

Var mean_pool(const Var& xv) {
  const Tensor& x = xv.value();
  check_floating("mean_pool", "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "mean_pool: x must have 3 axes, got {}", x.shape());
  const std::int64_t B = x.shape()[0], T_ = x.shape()[1], C = x.shape()[2];
  const Tensor y = Tensor::empty({B, C}, x.dtype(), x.device());
  dispatch_floating("mean_pool", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const WeightedPoolForward<T> p{.y = y.data<T>(),
                                   .x = x.data<T>(),
                                   .w = nullptr,
                                   .factor = T_ ? Value(1) / Value(T_) : Value(0),
                                   .batch = B,
                                   .steps = T_,
                                   .columns = C};
    FOLDGRAD_RUN(x.device(), weighted_pool, p);
  });
  return xv.tape().record(y, {xv}, MeanPoolNode{.dtype = x.dtype(), .shape = x.shape()});
}

}  // namespace foldgrad
