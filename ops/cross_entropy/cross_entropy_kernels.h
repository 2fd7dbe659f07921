// The loss of each row (engine/cpu/row_op.h), their sum, and the gradients of all logits (engine/cpu/elementwise.h).
#pragma once
#include <cmath>

#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"

namespace foldgrad {

struct CrossEntropyTargets {
  const std::int64_t *first, *second;  // [rows]; second may be null, and lambda with it
  const float* lambda;                 // [rows], the share of the first
};

// The target distribution: gold + rest on the class of the target, rest on each other.
template <class Value>
struct Smoothing {
  Value gold, rest;  // 1 - eps - eps_i, eps_i
};

template <class T>
struct CrossEntropyForward {
  static constexpr const char* kName = "cross_entropy forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 2, kMaxStep = 0;
  struct Row {
    Value max, sum, sum_shifted;
  };

  Value *losses, *max, *sum;  // [rows]
  const T* logits;            // [rows, columns]
  CrossEntropyTargets targets;
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  Smoothing<Value> q;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&maxima)[2]) const {
    const Value z = logits[i];
    maxima[0] = z > maxima[0] ? z : maxima[0];  // the other one is not used
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&maxima)[2]) const { row.max = maxima[0]; }  // [CE-1]
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[2]) const {
    sums[0] += fast_exp_nonpositive(Value(logits[i]) - row.max);  // [CE-1]
    sums[1] += Value(logits[i]) - row.max;
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[2]) const {
    row.sum = sums[0];
    row.sum_shifted = sums[1];
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    losses[r] = targets.first[r] == ignore_index ? Value(0) : loss(row, r);
    max[r] = row.max;
    sum[r] = row.sum;
  }
  FOLDGRAD_HD T* target() const { return nullptr; }  // nothing for each element
  FOLDGRAD_HD Value value(const Row&, std::int64_t, std::int64_t) const { return 0; }
  FOLDGRAD_OPERANDS(visit.element(logits));

  // Without smoothing, classes of logit -infinity are allowed.
  FOLDGRAD_HD Value loss(const Row& row, std::int64_t r) const {
    const Value others = q.rest == Value(0) ? Value(0) : q.rest * row.sum_shifted;
    return std::log(row.sum) - q.gold * gold_shifted(r, row.max) - others;  // [CE-2]
  }
  // z - m of the target, or between those of both; NaN when there is no such class. One of which the row has no share
  // may be of logit -infinity.
  FOLDGRAD_HD Value gold_shifted(std::int64_t r, Value m) const {
    const Value first = shifted(r, targets.first[r], m);
    if (!targets.second) return first;
    const Value lambda = targets.lambda[r], second = shifted(r, targets.second[r], m);
    return (lambda == Value(0) ? Value(0) : lambda * first) +
           (lambda == Value(1) ? Value(0) : (Value(1) - lambda) * second);  // [CE-5]
  }
  FOLDGRAD_HD Value shifted(std::int64_t r, std::int64_t c, Value m) const {
    return c >= 0 && c < columns ? Value(logits[r * columns + c]) - m : Value(NAN);
  }
};

// The loss from those of all rows, as the only row of a matrix.
template <class T>
struct CrossEntropyTotal {
  static constexpr const char* kName = "cross_entropy sum over rows";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 2;
  struct Row {
    Value loss, count;
  };

  Value *loss, *weight;         // scalars
  const Value* losses;          // [columns]
  const std::int64_t* targets;  // [columns]
  std::int64_t columns;
  std::int64_t ignore_index;
  bool mean;
  static constexpr std::int64_t rows = 1;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[2]) const {
    sums[0] += losses[i];
    sums[1] += Value(targets[i] != ignore_index);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[2]) const { row = {sums[0], sums[1]}; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t) const {
    *weight = mean ? Value(1) / (row.count > Value(1) ? row.count : Value(1)) : Value(1);
    *loss = row.loss * *weight;  // [CE-3]
  }
};

template <class T>
struct CrossEntropyBackward {
  static constexpr const char* kName = "cross_entropy backward";
  using Value = compute_t<T>;

  GradOut<T> dlogits;           // [rows, columns]
  const Value *dloss, *weight;  // scalars
  const Value *max, *sum;       // [rows]
  const T* logits;              // [rows, columns]
  CrossEntropyTargets targets;
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  Smoothing<Value> q;
  // Of the row at hand: its classes, their shares of the target and what multiplies exponentials and differences.
  struct Row {
    std::int64_t first, second;
    Value first_share, second_share, max, sum_inverse, weight;
    bool counts;
  } row = {};

  FOLDGRAD_HD void start(std::int64_t, std::int64_t r, std::int64_t c) {
    const std::int64_t t = targets.first[r], u = targets.second ? targets.second[r] : t;
    const Value share = targets.second ? Value(targets.lambda[r]) : Value(1);
    row = {t - c, u - c, share, Value(1) - share, max[r], Value(1) / sum[r], *dloss * *weight, t != ignore_index};
  }
  FOLDGRAD_HD const GradOut<T>& target() const { return dlogits; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    const Value share = (c == row.first ? row.first_share : Value(0)) + (c == row.second ? row.second_share : Value(0));
    const Value q_c = q.gold * share + q.rest;  // [CE-6]
    const Value p = fast_exp_nonpositive(Value(logits[i]) - row.max) * row.sum_inverse;
    return row.counts ? row.weight * (p - q_c) : Value(0);  // [CE-4]
  }
  FOLDGRAD_OPERANDS(visit.result(dlogits), visit.element(logits));
};

FOLDGRAD_FASTER(cuda, row_in_registers, CrossEntropyForward);

}  // namespace foldgrad
