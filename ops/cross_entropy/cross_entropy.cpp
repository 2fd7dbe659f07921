#include "ops/cross_entropy/cross_entropy.h"

#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

template <class T>
cross_entropy_math::Smoothing<T> smoothing(double eps, std::int64_t V) {
  const double eps_i = eps == 0 ? 0 : eps / double(V - 1);
  return {T(1 - eps - eps_i), T(eps_i)};
}

struct CrossEntropyNode {
  Tensor logits, targets, max, sum, weight;
  CrossEntropyOptions options;

  const char* name() const { return "cross_entropy"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), logits.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t V = logits.shape()[-1];
      const CrossEntropyBackward<T> p{.dlogits = grads.out<T>(0),
                                      .dloss = grads.dy().data<Value>(),
                                      .weight = weight.data<Value>(),
                                      .max = max.data<Value>(),
                                      .sum = sum.data<Value>(),
                                      .logits = logits.data<T>(),
                                      .targets = targets.data<std::int64_t>(),
                                      .rows = targets.size(),
                                      .columns = V,
                                      .ignore_index = options.ignore_index,
                                      .q = smoothing<Value>(options.label_smoothing, V)};
      FOLDGRAD_RUN(logits.device(), cross_entropy, p);
    });
  }
};

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const double eps = options.label_smoothing;
  check_floating("cross_entropy", "logits", logits, 1);
  check_operand("cross_entropy", "targets", targets, logits.shape().without(-1), DType::i64, logits, "logits");
  const std::int64_t V = logits.shape()[-1];
  FOLDGRAD_CHECK(V > 0, "cross_entropy: logits must have at least 1 class, got {}", logits.shape());
  FOLDGRAD_CHECK(eps >= 0 && eps < 1, "cross_entropy: label_smoothing must be in [0, 1), got {}", eps);
  FOLDGRAD_CHECK(eps == 0 || V > 1, "cross_entropy: label_smoothing needs at least 2 classes, got {}", V);
  if (targets.device() != Device::cpu) return;
  for (std::int64_t n = 0; n < targets.size(); ++n) {
    const std::int64_t t = targets.data<std::int64_t>()[n];
    FOLDGRAD_CHECK(t == options.ignore_index || (t >= 0 && t < V),
                   "cross_entropy: targets must be in [0, {}) or {}, which is ignored, got {} in row {}", V,
                   options.ignore_index, t, n);
  }
}

}  // namespace

Var cross_entropy(const Var& logitsv, const Var& targetsv, const CrossEntropyOptions& options) {
  const Tensor &logits = logitsv.value(), &targets = targetsv.value();
  check(logits, targets, options);
  const std::int64_t N = targets.size(), V = logits.shape()[-1];
  return dispatch_floating("cross_entropy", logits.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const auto empty = [&](Shape shape) { return Tensor::empty(shape, dtype_of<Value>, logits.device()); };
    const Tensor loss = empty({}), weight = empty({}), losses = empty({N}), max = empty({N}), sum = empty({N});
    const CrossEntropyForward<T> p{.loss = loss.data<Value>(),
                                   .weight = weight.data<Value>(),
                                   .losses = losses.data<Value>(),
                                   .max = max.data<Value>(),
                                   .sum = sum.data<Value>(),
                                   .logits = logits.data<T>(),
                                   .targets = targets.data<std::int64_t>(),
                                   .rows = N,
                                   .columns = V,
                                   .ignore_index = options.ignore_index,
                                   .mean = options.reduction == Reduction::mean,
                                   .q = smoothing<Value>(options.label_smoothing, V)};
    FOLDGRAD_RUN(logits.device(), cross_entropy, p);
    return logitsv.tape().record(
        loss, {logitsv, targetsv},
        CrossEntropyNode{
            .logits = logits, .targets = targets, .max = max, .sum = sum, .weight = weight, .options = options});
  });
}

}  // namespace foldgrad
