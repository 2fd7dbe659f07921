#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Each part is summed separately; then the sums of the parts are added in order.
template <class T>
struct SumForward {
  using Value = compute_t<T>;
  static constexpr std::int64_t kPartElements = 4096, kMaxParts = 64, kPack = 8;

  Value *y, *partials;  // y is a scalar; partials is [parts]
  const T* x;           // [n]
  std::int64_t n, parts;
  Value scale;

  static std::int64_t parts_of(std::int64_t n) {
    const std::int64_t parts = (n + kPartElements - 1) / kPartElements;
    return parts < kMaxParts ? parts : kMaxParts;
  }
  // Returns the index at which a part begins: a multiple of kPack, so that only the last part may end inside a pack.
  FOLDGRAD_HD std::int64_t begin(std::int64_t part) const {
    return part == parts ? n : part * n / parts / kPack * kPack;
  }
  // Adds the partial sums, after all parts have been summed.
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

FOLDGRAD_DECLARE(reduce, SumForward);

}  // namespace foldgrad
