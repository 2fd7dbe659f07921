#include "ops/dropout/dropout.h"

#include <algorithm>

#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {
namespace {

void check_p(const char* op, double p) { FOLDGRAD_CHECK(p >= 0 && p < 1, "{}: p must be in [0, 1), got {}", op, p); }

struct DropoutNode {
  double p;
  Random random;

  const char* name() const { return "dropout"; }

  // Differentiates dropout [DO-2]: computes dx [DO-3].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
      const Dropout<T> k{
          .y = grads.out<T>(0), .x = dy.data<T>(), .n = dy.size(), .mask = Mask<compute_t<T>>::of(p, random)};
      FOLDGRAD_RUN(dy.device(), elementwise, k);
    });
  }
  void describe(Description& d) const {
    d.passes = [](const Graph&, const GraphUse&, ChannelMap&) -> std::string {
      return "the recorded pass has dropout; record one at inference";
    };
  }
};

// Returns m, the factor for each sample of x. `m` is undefined without drop path.
template <class V>
SampleFactors<V> sample_factors(const Tensor& m, const Tensor& x) {
  if (!m.defined()) return {nullptr, x.size()};
  const std::int64_t each = m.size() ? x.size() / m.size() : 0;
  return {m.data<V>(), std::max<std::int64_t>(each, 1)};  // kernels divide by this number even if there are no elements
}

struct BiasDropoutResidualNode {
  double p, path_p;
  Random random;
  Tensor m;

  const char* name() const { return "bias_dropout_residual"; }

  // Differentiates bias_dropout_residual [DO-4]: computes dx, db and dresidual [DO-5].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    if (grads.wanted(0) || grads.wanted(1))
      dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
        const BiasDropoutResidualBackward<T> k{.dx = grads.out<T>(0),
                                               .dbias = grads.out<compute_t<T>>(1),
                                               .dy = dy.data<T>(),
                                               .rows = dy.shape().without(-1).elements(),
                                               .columns = dy.shape()[-1],
                                               .mask = Mask<compute_t<T>>::of(p, random),
                                               .samples = sample_factors<compute_t<T>>(m, dy)};
        FOLDGRAD_RUN(dy.device(), elements_and_column_sums, k);
      });
    grads.pass_dy(2);  // [DO-5]
  }

  void describe(Description& d) const {
    d.bias = 1;
    d.streams = {2};
    d.dropout = p + path_p - p * path_p;  // dropout drops single elements, drop path whole samples
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Add", {in[2], g.node("Add", {in[0], in[1]})}); };
  }
};

Tensor drop_path_factors(const Tensor& x, const DropPath& path) {
  FOLDGRAD_CHECK(path.p >= 0 && path.p < 1, "bias_dropout_residual: the drop path's p must be in [0, 1), got {}",
                 path.p);
  if (path.p == 0) return {};
  const std::int64_t rows = x.shape().without(-1).elements();
  FOLDGRAD_CHECK(path.rows >= 1 && rows % path.rows == 0,
                 "bias_dropout_residual: drop path needs whole samples of {} rows, got {} rows", path.rows, rows);
  return dispatch_floating("bias_dropout_residual", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor factors = Tensor::empty({rows / path.rows}, dtype_of<Value>, x.device());
    const DropPathFactors<T> k{.factors = factors.data<Value>(),
                               .n = factors.size(),
                               .mask = Mask<Value>::of(path.p, path.random),
                               .first = path.first};
    FOLDGRAD_RUN(x.device(), elementwise, k);
    return factors;
  });
}

}  // namespace

Var dropout(const Var& xv, double p, const Random& random) {
  const Tensor& x = xv.value();
  check_floating("dropout", "x", x);
  check_p("dropout", p);
  if (p == 0) return xv;
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("dropout", x.dtype(), [&]<class T>(Type<T>) {
    const Dropout<T> k{.y = {y.data<T>()}, .x = x.data<T>(), .n = x.size(), .mask = Mask<compute_t<T>>::of(p, random)};
    FOLDGRAD_RUN(x.device(), elementwise, k);
  });
  return xv.tape().record(y, {xv}, DropoutNode{.p = p, .random = random});
}

Var bias_dropout_residual(const Var& xv, const Var& biasv, const Var& residualv, double p, const Random& random,
                          const DropPath& path) {
  constexpr const char* kOp = "bias_dropout_residual";
  const Tensor &x = xv.value(), &bias = biasv.value(), &residual = residualv.value();
  check_floating(kOp, "x", x, 1);
  const std::int64_t columns = x.shape()[-1];
  check_operand(kOp, "bias", bias, {columns}, x, "x");
  check_operand(kOp, "residual", residual, x.shape(), x, "x");
  check_p(kOp, p);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device()), m = drop_path_factors(x, path);
  dispatch_floating(kOp, x.dtype(), [&]<class T>(Type<T>) {
    const BiasDropoutResidualForward<T> k{.y = y.data<T>(),
                                          .x = x.data<T>(),
                                          .bias = bias.data<T>(),
                                          .residual = residual.data<T>(),
                                          .rows = x.shape().without(-1).elements(),
                                          .columns = columns,
                                          .mask = Mask<compute_t<T>>::of(p, random),
                                          .samples = sample_factors<compute_t<T>>(m, x)};
    FOLDGRAD_RUN(x.device(), matrix, k);
  });
  return xv.tape().record(y, {xv, biasv, residualv},
                          BiasDropoutResidualNode{.p = p, .path_p = path.p, .random = random, .m = m});
}

}  // namespace foldgrad
