#include "ops/reduce/reduce.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/reduce/reduce_kernels.h"

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
  Tensor mask, weight;  // mask may be undefined
  DType dtype;          // of x; x itself is not needed
  Shape shape;

  const char* name() const { return "mean_pool"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), dtype, [&]<class T>(Type<T>) {
      const MeanPoolBackward<T> p{.dx = grads.out<T>(0),
                                  .dy = grads.dy().data<T>(),
                                  .weight = weight.data<compute_t<T>>(),
                                  .mask = mask.defined() ? mask.data<std::uint8_t>() : nullptr,
                                  .batch = shape[0],
                                  .steps = shape[1],
                                  .columns = shape[2]};
      FOLDGRAD_RUN(weight.device(), reduce, p);
    });
  }

  std::string passes(const Graph&, const GraphUse&, ChannelMap& map) const {
    if (map.place.axis != 2) return "mean_pool averages over the channels";
    if (mask.defined() && map.map.adds()) return "mean_pool gives zeros for rows that are all masked, not B";
    map.place.axis = 1;
    return "";
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    FOLDGRAD_CHECK(!mask.defined(), "onnx: mean_pool with a mask is not known as nodes of ONNX");
    return g.node("ReduceMean", {in[0]}, {{"axes", OnnxGraph::Sizes{1}}, {"keepdims", std::int64_t(0)}});
  }
};

Var mean_pool(const Var& xv, const Tensor& mask, const std::vector<Var>& operands) {
  const Tensor& x = xv.value();
  const std::int64_t B = x.shape()[0], T_ = x.shape()[1], C = x.shape()[2];
  const Tensor y = Tensor::empty({B, C}, x.dtype(), x.device());
  return dispatch_floating("mean_pool", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor weight = Tensor::empty({B}, dtype_of<Value>, x.device());
    const MeanPoolForward<T> p{.y = y.data<T>(),
                               .weight = weight.data<Value>(),
                               .x = x.data<T>(),
                               .mask = mask.defined() ? mask.data<std::uint8_t>() : nullptr,
                               .batch = B,
                               .steps = T_,
                               .columns = C};
    FOLDGRAD_RUN(x.device(), reduce, p);
    return xv.tape().record(y, operands,
                            MeanPoolNode{.mask = mask, .weight = weight, .dtype = x.dtype(), .shape = x.shape()});
  });
}

void check_pooled(const Tensor& x) {
  check_floating("mean_pool", "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "mean_pool: x must have 3 axes, got {}", x.shape());
}

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

Var mean_pool(const Var& x) {
  check_pooled(x.value());
  return mean_pool(x, Tensor(), {x});
}

Var mean_pool(const Var& x, const Var& mask) {
  check_pooled(x.value());
  check_operand("mean_pool", "mask", mask.value(), {x.shape()[0], x.shape()[1]}, DType::u8, x.value(), "x");
  return mean_pool(x, mask.value(), {x, mask});
}

}  // namespace foldgrad
