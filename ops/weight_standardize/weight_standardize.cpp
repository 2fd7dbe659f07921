#include "ops/weight_standardize/weight_standardize.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/weight_standardize/weight_standardize_kernels.h"

namespace foldgrad {
namespace {

struct WeightStandardizeNode {
  Tensor W, g, mu, rs, cs;

  const char* name() const { return "weight_standardize"; }

  // Differentiates weight_standardize [WS-1, WS-2, WS-3]: computes dW [WS-4] and dg [WS-5].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), W.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const WeightStandardizeBackward<T> p{.dW = grads.out<T>(0),
                                           .dg = grads.out<T>(1),
                                           .dwhat = grads.dy().data<T>(),
                                           .W = W.data<T>(),
                                           .g = g.data<T>(),
                                           .mu = mu.data<Value>(),
                                           .rs = rs.data<Value>(),
                                           .cs = cs.data<Value>(),
                                           .rows = W.shape()[0],
                                           .columns = W.shape().without(0).elements()};
      FOLDGRAD_RUN(W.device(), row_op, p);
    });
  }
  void describe(Description&) const {}
};

void check(const Tensor& W, const Tensor& g, const WeightStandardizeOptions& options) {
  check_floating("weight_standardize", "W", W, 2);
  check_operand("weight_standardize", "g", g, {W.shape()[0]}, W, "W");
  const std::int64_t fan_in = W.shape().without(0).elements(), least = options.unbiased ? 2 : 1;
  FOLDGRAD_CHECK(fan_in >= least, "weight_standardize: W must have a fan-in of at least {}, got {}", least, W.shape());
  FOLDGRAD_CHECK(options.minimum > 0, "weight_standardize: minimum must be positive, got {}", options.minimum);
}

}  // namespace

Var weight_standardize(const Var& Wv, const Var& gv, const WeightStandardizeOptions& options) {
  const Tensor &W = Wv.value(), &g = gv.value();
  check(W, g, options);
  const std::int64_t O = W.shape()[0], N = W.shape().without(0).elements();
  const Tensor what = Tensor::empty(W.shape(), W.dtype(), W.device());
  return dispatch_floating("weight_standardize", W.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const auto per_unit = [&] { return Tensor::empty({O}, dtype_of<Value>, W.device()); };
    const Tensor mu = per_unit(), rs = per_unit(), cs = per_unit();
    const WeightStandardizeForward<T> p{.what = what.data<T>(),
                                        .mu = mu.data<Value>(),
                                        .rs = rs.data<Value>(),
                                        .cs = cs.data<Value>(),
                                        .W = W.data<T>(),
                                        .g = g.data<T>(),
                                        .rows = O,
                                        .columns = N,
                                        .c = Value(options.unbiased ? double(N) / double(N - 1) : 1),
                                        .minimum = Value(options.minimum)};
    FOLDGRAD_RUN(W.device(), row_op, p);
    return Wv.tape().record(what, {Wv, gv}, WeightStandardizeNode{.W = W, .g = g, .mu = mu, .rs = rs, .cs = cs});
  });
}

}  // namespace foldgrad
