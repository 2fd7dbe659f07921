#include "ops/cross_entropy/cross_entropy.h"

#include <algorithm>

#include "engine/cpu/row_op.h"
#include "engine/cpu/rows.h"
#include "engine/node_grads.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

template <class T>
void backward_row(const CrossEntropyBackward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const GradOut<T> dz{p.dlogits.data + r * columns, p.dlogits.mode};
  if (!p.targets.counts(r)) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dz.put(c, 0);
    return;
  }
  const T* z = p.logits + r * columns;
  const Value m = p.max[r], sum_inverse = Value(1) / p.sum[r], weight = *p.dloss * *p.weight;
  const auto put = [=](std::int64_t begin, std::int64_t end, Value q) {
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c)
      dz.put(c, cross_entropy_math::dz(cross_entropy_math::exponential(Value(z[c]), m), sum_inverse, q, weight));
  };
  const std::int64_t target = p.targets.first[r], other = p.targets.second ? p.targets.second[r] : target;
  const std::int64_t low = std::min(target, other), high = std::max(target, other);
  put(0, low, p.q.rest);
  put(low, low + 1, p.q_of(r, low));
  if (low < high) {
    put(low + 1, high, p.q.rest);
    put(high, high + 1, p.q_of(r, high));
  }
  put(high + 1, columns, p.q.rest);
}

}  // namespace

template <class T>
void cross_entropy_cpu(const CrossEntropyBackward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { backward_row(p, r); });
}

namespace {

struct Targets {
  Tensor first, second, lambda;  // `second` and `lambda` are undefined if each row has one target

  CrossEntropyTargets pointers(std::int64_t ignore_index) const {
    return {first.data<std::int64_t>(), data_or_null<std::int64_t>(second), data_or_null<float>(lambda), ignore_index};
  }
};

template <class T>
cross_entropy_math::Smoothing<T> smoothing(double eps, std::int64_t V) {
  const double eps_i = eps == 0 ? 0 : eps / double(V - 1);
  return {T(1 - eps - eps_i), T(eps_i)};
}

struct CrossEntropyNode {
  Tensor logits;
  Targets targets;
  Tensor max, sum, weight;
  CrossEntropyOptions options;

  const char* name() const { return "cross_entropy"; }

  // Differentiates cross_entropy [CE-1, CE-2, CE-3]: computes dz [CE-4]; with two targets, q is [CE-6].
  void backward(NodeGrads& grads) {
    FOLDGRAD_CHECK(!targets.lambda.defined() || !grads.wanted(3),
                   "cross_entropy: lambda must be a constant, got a value that requires a gradient");
    dispatch_floating(name(), logits.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t V = logits.shape()[-1];
      const CrossEntropyBackward<T> p{.dlogits = grads.out<T>(0, logits),
                                      .dloss = grads.dy().data<Value>(),
                                      .weight = weight.data<Value>(),
                                      .max = max.data<Value>(),
                                      .sum = sum.data<Value>(),
                                      .logits = logits.data<T>(),
                                      .targets = targets.pointers(options.ignore_index),
                                      .rows = targets.first.size(),
                                      .columns = V,
                                      .q = smoothing<Value>(options.label_smoothing, V)};
      FOLDGRAD_RUN(logits.device(), cross_entropy, p);
    });
  }
  void describe(Description&) const {}
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

void check_second(const Tensor& logits, const Targets& targets, std::int64_t ignore_index) {
  const auto& [first, second, lambda] = targets;
  const std::int64_t V = logits.shape()[-1];
  check_operand("cross_entropy", "second targets", second, first.shape(), DType::i64, logits, "logits");
  check_operand("cross_entropy", "lambda", lambda, first.shape(), DType::f32, logits, "logits");
  if (first.device() != Device::cpu) return;
  for (std::int64_t n = 0; n < first.size(); ++n) {
    if (first.data<std::int64_t>()[n] == ignore_index) continue;
    const std::int64_t u = second.data<std::int64_t>()[n];
    const float share = lambda.data<float>()[n];
    FOLDGRAD_CHECK(u >= 0 && u < V, "cross_entropy: second targets must be in [0, {}), got {} in row {}", V, u, n);
    FOLDGRAD_CHECK(share >= 0 && share <= 1, "cross_entropy: lambda must be in [0, 1], got {} in row {}", share, n);
  }
}

// Computes and records the loss. The operands have been checked.
Var loss_of(const Var& logitsv, const Targets& targets, const std::vector<Var>& operands,
            const CrossEntropyOptions& options) {
  const Tensor& logits = logitsv.value();
  const std::int64_t N = targets.first.size(), V = logits.shape()[-1];
  return dispatch_floating("cross_entropy", logits.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const auto empty = [&](Shape shape) { return Tensor::empty(shape, dtype_of<Value>, logits.device()); };
    const Tensor loss = empty({}), weight = empty({}), losses = empty({N}), max = empty({N}), sum = empty({N});
    const CrossEntropyForward<T> p{.losses = losses.data<Value>(),
                                   .max = max.data<Value>(),
                                   .sum = sum.data<Value>(),
                                   .logits = logits.data<T>(),
                                   .targets = targets.pointers(options.ignore_index),
                                   .rows = N,
                                   .columns = V,
                                   .q = smoothing<Value>(options.label_smoothing, V)};
    FOLDGRAD_RUN(logits.device(), row_op, p);
    const CrossEntropyTotal<T> total{.loss = loss.data<Value>(),
                                     .weight = weight.data<Value>(),
                                     .losses = p.losses,
                                     .targets = p.targets,
                                     .columns = N,
                                     .mean = options.reduction == Reduction::mean};
    FOLDGRAD_RUN(logits.device(), row_op, total);
    return logitsv.tape().record(
        loss, operands,
        CrossEntropyNode{
            .logits = logits, .targets = targets, .max = max, .sum = sum, .weight = weight, .options = options});
  });
}

}  // namespace

Var cross_entropy(const Var& logits, const Var& targets, const CrossEntropyOptions& options) {
  check(logits.value(), targets.value(), options);
  return loss_of(logits, {.first = targets.value(), .second = {}, .lambda = {}}, {logits, targets}, options);
}

Var cross_entropy(const Var& logits, const Var& targets, const Var& second_targets, const Var& lambda,
                  const CrossEntropyOptions& options) {
  const Targets both{.first = targets.value(), .second = second_targets.value(), .lambda = lambda.value()};
  check(logits.value(), both.first, options);
  check_second(logits.value(), both, options.ignore_index);
  return loss_of(logits, both, {logits, targets, second_targets, lambda}, options);
}

}  // namespace foldgrad
