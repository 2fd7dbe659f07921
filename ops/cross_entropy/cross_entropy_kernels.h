// The formulas of cross_entropy.h for one element, and the parameter structs of the CPU and CUDA loops that apply them.
#pragma once
#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"

namespace foldgrad {
namespace cross_entropy_math {

// The target distribution: the probability is gold + rest for the target's class, and rest for each other class.
template <class T>
struct Smoothing {
  T gold, rest;  // gold is 1 - eps - eps_i, rest is eps_i
};

template <class T>
FOLDGRAD_HD T exponential(T z, T m) {
  return fast_exp_nonpositive(z - m);  // [CE-1]
}
// Without smoothing, logits may be -infinity.
template <class T>
FOLDGRAD_HD T loss(T sum, T gold_shifted, T sum_shifted, const Smoothing<T>& q) {
  return std::log(sum) - q.gold * gold_shifted - (q.rest == T(0) ? T(0) : q.rest * sum_shifted);  // [CE-2]
}
// A class with share 0 may have a logit of -infinity.
template <class T>
FOLDGRAD_HD T mixed(T first, T second, T lambda) {
  return (lambda == T(0) ? T(0) : lambda * first) + (lambda == T(1) ? T(0) : (T(1) - lambda) * second);  // [CE-5]
}
template <class T>
FOLDGRAD_HD T q(T share, const Smoothing<T>& q) {
  return q.gold * share + q.rest;  // [CE-6]
}
template <class T>
FOLDGRAD_HD T dz(T exponential, T sum_inverse, T q, T weight) {
  return weight * (exponential * sum_inverse - q);  // [CE-4]
}

}  // namespace cross_entropy_math

struct CrossEntropyTargets {
  const std::int64_t *first, *second;  // [rows]; second and lambda are null if there is one target per row
  const float* lambda;                 // [rows], the weight of the first target
  std::int64_t ignore_index;

  FOLDGRAD_HD bool counts(std::int64_t r) const { return first[r] != ignore_index; }
  // Returns the probability of class c in row r's target.
  template <class Value>
  FOLDGRAD_HD Value share(std::int64_t r, std::int64_t c) const {
    if (!second) return Value(c == first[r]);
    const Value of_first = lambda[r];
    return (c == first[r] ? of_first : Value(0)) + (c == second[r] ? Value(1) - of_first : Value(0));
  }
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
  cross_entropy_math::Smoothing<Value> q;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&maxima)[2]) const {
    const Value z = logits[i];
    maxima[0] = z > maxima[0] ? z : maxima[0];  // maxima[1] is unused
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&maxima)[2]) const { row.max = maxima[0]; }  // [CE-1]
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[2]) const {
    sums[0] += cross_entropy_math::exponential(Value(logits[i]), row.max);
    sums[1] += Value(logits[i]) - row.max;
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[2]) const {
    row.sum = sums[0];
    row.sum_shifted = sums[1];
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    losses[r] =
        targets.counts(r) ? cross_entropy_math::loss(row.sum, gold_shifted(r, row.max), row.sum_shifted, q) : Value(0);
    max[r] = row.max;
    sum[r] = row.sum;
  }
  FOLDGRAD_HD T* target() const { return nullptr; }  // null: there are no results per element
  FOLDGRAD_HD Value value(const Row&, std::int64_t, std::int64_t) const { return 0; }
  FOLDGRAD_OPERANDS(visit.element(logits));

  // Returns z - m of the target or, for two targets, the weighted mean of both; NaN if a target is not a class.
  FOLDGRAD_HD Value gold_shifted(std::int64_t r, Value m) const {
    const Value first = shifted(r, targets.first[r], m);
    if (!targets.second) return first;
    return cross_entropy_math::mixed(first, shifted(r, targets.second[r], m), Value(targets.lambda[r]));
  }
  FOLDGRAD_HD Value shifted(std::int64_t r, std::int64_t c, Value m) const {
    return c >= 0 && c < columns ? Value(logits[r * columns + c]) - m : Value(NAN);
  }
};

// Sums the losses of all rows. For this row operation, the losses are one row of a matrix.
template <class T>
struct CrossEntropyTotal {
  static constexpr const char* kName = "cross_entropy sum over rows";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 2;
  struct Row {
    Value loss, count;
  };

  Value *loss, *weight;  // scalars
  const Value* losses;   // [columns]
  CrossEntropyTargets targets;
  std::int64_t columns;
  bool mean;
  static constexpr std::int64_t rows = 1;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[2]) const {
    sums[0] += losses[i];
    sums[1] += Value(targets.counts(i));
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[2]) const { row = {sums[0], sums[1]}; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t) const {
    *weight = mean ? Value(1) / (row.count > Value(1) ? row.count : Value(1)) : Value(1);
    *loss = row.loss * *weight;  // [CE-3]
  }
  FOLDGRAD_HD T* target() const { return nullptr; }
  FOLDGRAD_HD Value value(const Row&, std::int64_t, std::int64_t) const { return 0; }
};

template <class T>
struct CrossEntropyBackward {
  using Value = compute_t<T>;

  GradOut<T> dlogits;           // [rows, columns]; may be the memory of logits
  const Value *dloss, *weight;  // scalars
  const Value *max, *sum;       // [rows]
  const T* logits;              // [rows, columns]
  CrossEntropyTargets targets;
  std::int64_t rows, columns;
  cross_entropy_math::Smoothing<Value> q;

  FOLDGRAD_HD Value q_of(std::int64_t r, std::int64_t c) const {
    return cross_entropy_math::q(targets.template share<Value>(r, c), q);
  }
};

FOLDGRAD_FASTER(row_in_registers, CrossEntropyForward);
FOLDGRAD_DECLARE(cross_entropy, CrossEntropyBackward);

}  // namespace foldgrad
