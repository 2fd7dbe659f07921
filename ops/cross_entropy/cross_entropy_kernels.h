#pragma once
#include "engine/kernels.h"
#include "ops/cross_entropy/cross_entropy_math.h"

namespace foldgrad {

template <class T>
struct CrossEntropyForward {
  using Value = compute_t<T>;

  Value *loss, *weight;         // scalars
  Value *losses, *max, *sum;    // [rows]; on the CPU max and sum of ignored rows are not written
  const T* logits;              // [rows, columns]
  const std::int64_t* targets;  // [rows]
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  bool mean;
  cross_entropy_math::Smoothing<Value> q;

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
  const std::int64_t* targets;  // [rows]
  std::int64_t rows, columns;
  std::int64_t ignore_index;
  cross_entropy_math::Smoothing<Value> q;
};

FOLDGRAD_DECLARE(cross_entropy, CrossEntropyForward);
FOLDGRAD_DECLARE(cross_entropy, CrossEntropyBackward);

}  // namespace foldgrad
