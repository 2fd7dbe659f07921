#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Every part is summed on its own, then the parts in their order.
template <class T>
struct SumForward {
  using Value = compute_t<T>;
  static constexpr std::int64_t kPartElements = 4096, kMaxParts = 64, kPack = 8;

  Value *y, *partials;  // scalar, [parts]
  const T* x;           // [n]
  std::int64_t n, parts;
  Value scale;

  static std::int64_t parts_of(std::int64_t n) {
    const std::int64_t parts = (n + kPartElements - 1) / kPartElements;
    return parts < kMaxParts ? parts : kMaxParts;
  }
  // At a multiple of kPack, so that all parts are whole packs but the last.
  FOLDGRAD_HD std::int64_t begin(std::int64_t part) const {
    return part == parts ? n : part * n / parts / kPack * kPack;
  }
  // The partial sums are there.
  FOLDGRAD_HD void finish() const {
    Value sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partials[part];
    *y = sum * scale;  // [RED-1, RED-2]
  }
};

template <class T>
struct SumBackward {
  static constexpr const char* kName = "sum backward";

  GradOut<T> dx;           // [n]
  const compute_t<T>* dy;  // scalar
  std::int64_t n;
  compute_t<T> scale;

  FOLDGRAD_HD void operator()(std::int64_t i) const { dx.put(i, *dy * scale); }  // [RED-1, RED-2]
  FOLDGRAD_OPERANDS(visit.result(dx));
};

template <class T>
struct MeanPoolForward {
  using Value = compute_t<T>;

  T* y;                      // [batch, columns]
  Value* weight;             // [batch], 1 / k
  const T* x;                // [batch, steps, columns]
  const std::uint8_t* mask;  // [batch, steps]; null: all ones
  std::int64_t batch, steps, columns;

  FOLDGRAD_HD bool counts(std::int64_t b, std::int64_t t) const { return !mask || mask[b * steps + t]; }
  FOLDGRAD_HD Value weight_of(std::int64_t b) const {
    std::int64_t k = 0;
    for (std::int64_t t = 0; t < steps; ++t) k += counts(b, t);
    return k ? Value(1) / Value(k) : Value(0);
  }
  FOLDGRAD_HD static Value mean(Value sum, Value weight) { return sum * weight; }  // [RED-3]
};

template <class T>
struct MeanPoolBackward {
  using Value = compute_t<T>;

  GradOut<T> dx;             // [batch, steps, columns]
  const T* dy;               // [batch, columns]
  const Value* weight;       // [batch]
  const std::uint8_t* mask;  // [batch, steps]; null: all ones
  std::int64_t batch, steps, columns;

  // The factor of all columns of one step.
  FOLDGRAD_HD Value factor(std::int64_t b, std::int64_t t) const {
    return !mask || mask[b * steps + t] ? weight[b] : Value(0);
  }
  FOLDGRAD_HD static Value dx_of(T dy, Value factor) { return factor * Value(dy); }  // [RED-4]
};

FOLDGRAD_DECLARE(reduce, SumForward);
FOLDGRAD_DECLARE(reduce, MeanPoolForward);
FOLDGRAD_DECLARE(reduce, MeanPoolBackward);

}  // namespace foldgrad
