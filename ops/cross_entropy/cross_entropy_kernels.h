#pragma once
#include <cmath>

#include "engine/kernels.h"
#include "ops/cross_entropy/cross_entropy_math.h"

namespace foldgrad {

struct CrossEntropyTargets {
  const std::int64_t *first, *second;  // [rows]; second may be null, and lambda with it
  const float* lambda;                 // [rows], the share of the first

  // How much of row r's target class c is.
  template <class Value>
  FOLDGRAD_HD Value share(std::int64_t r, std::int64_t c) const {
    if (!second) return Value(c == first[r]);
    const Value of_first = lambda[r];
    return (c == first[r] ? of_first : Value(0)) + (c == second[r] ? Value(1) - of_first : Value(0));
  }
};

template <class T>
struct CrossEntropyForward {
  using Value = compute_t<T>;

  Value *loss, *weight;       // scalars
  Value *losses, *max, *sum;  // [rows]; on the CPU max and sum of ignored rows are not written
  const T* logits;            // [rows, columns]
  CrossEntropyTargets targets;
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  bool mean;
  cross_entropy_math::Smoothing<Value> q;

  FOLDGRAD_HD bool counts(std::int64_t r) const { return targets.first[r] != ignore_index; }
  // z - m of the target, or between those of both; NaN when there is no such class.
  FOLDGRAD_HD Value gold_shifted(std::int64_t r, Value m) const {
    const Value first = shifted(r, targets.first[r], m);
    if (!targets.second) return first;
    return cross_entropy_math::mixed(first, shifted(r, targets.second[r], m), Value(targets.lambda[r]));
  }
  FOLDGRAD_HD Value shifted(std::int64_t r, std::int64_t c, Value m) const {
    return c >= 0 && c < columns ? Value(logits[r * columns + c]) - m : Value(NAN);
  }

  // From the losses of all rows, of which `count` are not ignored.
  FOLDGRAD_HD void finish(Value total, Value count) const {
    *weight = mean ? Value(1) / (count > Value(1) ? count : Value(1)) : Value(1);
    *loss = total * *weight;  // [CE-3]
  }
};

template <class T>
struct CrossEntropyBackward {
  using Value = compute_t<T>;

  GradOut<T> dlogits;           // [rows, columns]
  const Value *dloss, *weight;  // scalars
  const Value *max, *sum;       // [rows]
  const T* logits;              // [rows, columns]
  CrossEntropyTargets targets;
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  cross_entropy_math::Smoothing<Value> q;

  FOLDGRAD_HD bool counts(std::int64_t r) const { return targets.first[r] != ignore_index; }
  FOLDGRAD_HD Value q_of(std::int64_t r, std::int64_t c) const {
    return cross_entropy_math::q(targets.template share<Value>(r, c), q);
  }
};

FOLDGRAD_DECLARE(cross_entropy, CrossEntropyForward);
FOLDGRAD_DECLARE(cross_entropy, CrossEntropyBackward);

}  // namespace foldgrad
