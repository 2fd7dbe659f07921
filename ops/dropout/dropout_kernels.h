#pragma once
#include <cmath>

#include "engine/kernels.h"
#include "engine/philox.h"

namespace foldgrad {

template <class V>
struct Mask {
  Random random;
  std::uint32_t threshold;  // an element is dropped if its 16 bits are below this number
  V scale;

  // Rounds p to threshold / 2^16, the nearest multiple of 2^-16 below 1.
  static Mask of(double p, const Random& random) {
    const std::uint32_t threshold = p < 65535.5 / 65536 ? std::uint32_t(std::lround(p * 65536)) : 65535u;
    return {random, threshold, V(65536 / double(65536 - threshold))};
  }

  // Multiplies by 0 instead of selecting 0: for a selection, GCC would use masked loads, which a Zen 5 does not
  // prefetch. A dropped infinity becomes NaN, as in PyTorch.
  FOLDGRAD_HD V apply(V value, std::uint32_t bits) const {
    return value * (bits >= threshold ? scale : V(0));  // [DO-1, DO-2, DO-3]
  }
  FOLDGRAD_HD Mask times(V factor) const { return {random, threshold, scale * factor}; }
};

// Lets a struct with a member `mask` draw random numbers (engine/cpu/run_element.h). With can_be_0, the struct draws no
// numbers if p is 0.
#define FOLDGRAD_DRAWS_MASK(can_be_0)                                           \
  FOLDGRAD_HD const ::foldgrad::Random& random() const { return mask.random; }  \
  FOLDGRAD_HD bool draws() const { return !(can_be_0) || mask.threshold != 0; } \
  static_assert(true)

// Computes the factor m of every sample.
template <class T>
struct DropPathFactors {
  static constexpr const char* kName = "bias_dropout_residual drop path";
  using Value = compute_t<T>;

  Value* factors;  // [n]
  std::int64_t n;  // number of samples
  Mask<Value> mask;
  std::int64_t first;  // see DropPath::first

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    factors[i] = mask.apply(Value(1), mask.random.bits16(std::uint64_t(first + i)));  // [DO-6]
  }
};

template <class V>
struct SampleFactors {
  const V* m;         // [samples]; null if all factors are 1
  std::int64_t size;  // number of elements per sample, or in the whole tensor if m is null

  // Returns `mask` times the factor of the sample that contains element i.
  FOLDGRAD_HD Mask<V> times(const Mask<V>& mask, std::int64_t i) const {
    return m ? mask.times(m[i / size]) : mask;  // [DO-6]
  }
};

// Computes y from x in the forward pass, and dx from dy in the backward pass.
template <class T>
struct Dropout {
  static constexpr const char* kName = "dropout";
  GradOut<T> y;
  const T* x;
  std::int64_t n;
  Mask<compute_t<T>> mask;

  FOLDGRAD_DRAWS_MASK(/*can_be_0=*/true);
  FOLDGRAD_HD const GradOut<T>& target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::uint32_t bits) const {
    return mask.apply(compute_t<T>(x[i]), bits);
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

// start() may use the factor of element i for the whole row, since a sample consists of whole rows.
template <class T>
struct BiasDropoutResidualForward {
  static constexpr const char* kName = "bias_dropout_residual forward";
  T* y;                          // [rows, columns]
  const T *x, *bias, *residual;  // [rows, columns], [columns], [rows, columns]
  std::int64_t rows, columns;
  Mask<compute_t<T>> mask;
  SampleFactors<compute_t<T>> samples;

  FOLDGRAD_DRAWS_MASK(/*can_be_0=*/true);
  FOLDGRAD_HD void start(std::int64_t i, std::int64_t) { mask = samples.times(mask, i); }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c, std::uint32_t bits) const {
    using Value = compute_t<T>;
    return Value(residual[i]) + mask.apply(Value(x[i]) + Value(bias[c]), bits);  // [DO-4]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.element(residual), visit.column(bias));
};

template <class T>
struct BiasDropoutResidualBackward {
  static constexpr const char* kName = "bias_dropout_residual backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dx;              // [rows, columns]
  ParameterGradOut<T> dbias;  // [columns]
  const T* dy;                // [rows, columns]
  std::int64_t rows, columns;
  Mask<Value> mask;
  SampleFactors<Value> samples;

  FOLDGRAD_DRAWS_MASK(/*can_be_0=*/true);
  FOLDGRAD_HD void start(std::int64_t i, std::int64_t) { mask = samples.times(mask, i); }
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t, std::uint32_t bits) const {
    return mask.apply(Value(dy[i]), bits);  // [DO-5]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, std::uint32_t bits, Value (&sums)[kSums]) const {
    sums[0] += value(r * columns + c, c, bits);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dbias; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy));
};

}  // namespace foldgrad
