// exp, tanh, sigmoid, erf and two distribution functions for float. They have no branches and no calls, so loops that
// use them vectorise. Both devices use the same formulas. Over the whole range, errors are at most 2.5 units in the
// last place for exp and tanh, 3.5 for sigmoid, 4.5 for erf, and 2e-7 (absolute) for the distribution functions.
// Infinities give the limits, and NaN stays NaN. The overloads for double call the standard library, since gradients
// are checked in double.
//
// exp and sigmoid return 0 for results below e^-87.33, where floats become subnormal: an instruction that reads or
// produces a subnormal number takes some 100 cycles, and masked scores in attention produce many.
//
// The polynomials are minimax fits (Remez's algorithm with 40 digits, then rounded). Comments give their errors.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/dtype.h"

namespace foldgrad {
namespace vector_math {

// The parts of x = n ln 2 + r with |r| <= ln(2) / 2. The lower bits of `bits` equal the lower bits of n + offset, so
// the exponent's bias can be added at no cost.
struct Reduced {
  std::uint32_t bits;
  float r;
};

FOLDGRAD_HD inline Reduced reduce(float x, float offset) {
  const float shift = 12582912.0f + offset;  // 1.5 * 2^23; adding this number rounds to an integer
  const float shifted = std::fma(x, 1.44269504f, shift);
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const float n = shifted - shift;
  const float r = std::fma(n, -0.693147182f, x);  // ln 2 is split into two parts, which have 48 bits in total
  return {bits, std::fma(n, 1.90465421e-9f, r)};
}

FOLDGRAD_HD inline float polynomial(float s, float c0, float c1, float c2, float c3, float c4, float c5) {
  float p = std::fma(c5, s, c4);
  p = std::fma(p, s, c3);
  p = std::fma(p, s, c2);
  p = std::fma(p, s, c1);
  return std::fma(p, s, c0);
}

// Returns (e^r - 1 - r) / r^2 for a reduced r; the error is 2^-28 e^r.
FOLDGRAD_HD inline float exp_tail(float r) {
  float q = 1.39542879e-3f;
  q = std::fma(q, r, 8.37475806e-3f);
  q = std::fma(q, r, 4.16661277e-2f);
  q = std::fma(q, r, 1.66664213e-1f);
  return std::fma(q, r, 0.5f);
}
FOLDGRAD_HD inline float expm1_reduced(float r) { return std::fma(r * r, exp_tail(r), r); }

// Returns e^r for a reduced r; the relative error is 2^-23.3.
FOLDGRAD_HD inline float exp_reduced(float r) {
  return polynomial(r, 1.0f, 9.99999702e-1f, 4.99991447e-1f, 1.66676417e-1f, 4.18984965e-2f, 8.29020981e-3f);
}

constexpr float kBias = 127.0f;
constexpr float kLeastExponent = -87.33f;  // e^x is subnormal below -87.3366
// Returns 2^(e - 127) for 0 < e < 255; reads only the lower 9 bits of e.
FOLDGRAD_HD inline float biased_power(std::uint32_t e) {
  const std::uint32_t bits = e << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// These return x unchanged if it is a NaN.
FOLDGRAD_HD inline float at_most(float x, float bound) { return bound < x ? bound : x; }
FOLDGRAD_HD inline float at_least(float x, float bound) { return bound > x ? bound : x; }

}  // namespace vector_math

FOLDGRAD_HD inline float fast_exp(float x) {
  using namespace vector_math;
  const Reduced reduced = reduce(at_least(at_most(x, 89.0f), kLeastExponent), 2 * kBias);  // at 89: infinity
  const std::uint32_t half = reduced.bits >> 1;  // 2^128 is not a float, so 2^n is split into two factors
  const float value = exp_reduced(reduced.r) * biased_power(half) * biased_power(reduced.bits - half);
  return x < kLeastExponent ? 0.0f : value;
}

// Like fast_exp(), but only for x <= 0, which takes fewer steps. Softmax, for example, needs no other x.
FOLDGRAD_HD inline float fast_exp_nonpositive(float x) {
  using namespace vector_math;
  const Reduced reduced = reduce(at_least(x, kLeastExponent), kBias);
  const float value = exp_reduced(reduced.r) * biased_power(reduced.bits);
  return x < kLeastExponent ? 0.0f : value;
}

// Computes (e^2a - 1) / (e^2a + 1) for a = |x|. Computes e^2a - 1 as 2^n (e^r - 1) + (2^n - 1), which keeps the digits
// of a small a.
FOLDGRAD_HD inline float fast_tanh(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 10.0f);  // tanh(10) rounds to 1
  const Reduced reduced = reduce(2.0f * a, kBias);
  const float power = biased_power(reduced.bits);
  const float e = std::fma(power, expm1_reduced(reduced.r), power - 1.0f);
  return std::copysign(e / (e + 2.0f), x);
}

// Computes 1 / (1 + e^-x) from e^-|x|, which cannot overflow.
FOLDGRAD_HD inline float fast_sigmoid(float x) {
  const float e = fast_exp_nonpositive(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// Computes x P(x^2) / Q(x^2) with relative error 2^-25.5. All coefficients are positive, so no digits cancel.
FOLDGRAD_HD inline float fast_erf(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 3.95f);  // erf(3.95) rounds to 1
  const float s = a * a;
  const float p =
      polynomial(s, 1.12837911f, 1.91531897e-1f, 5.28730229e-2f, 3.80736869e-3f, 2.84670270e-4f, 2.02606179e-6f);
  const float q = polynomial(s, 1.0f, 5.03073394e-1f, 1.14552021e-1f, 1.50535088e-2f, 1.17053359e-3f, 3.78324621e-5f);
  return std::copysign(at_most(a * p / q, 1.0f), x);
}

// Two functions that rise from 0 to 1 as 1/2 + x P(x^2) / Q(x^2). Their errors, 2^-26.7 and 2^-27.3, are absolute: for
// x far below 0, few digits are correct. This does not matter in gelu, which is x times the function.

// Returns the normal distribution function of x, which rounds to 1 at 5.6.
FOLDGRAD_HD inline float fast_normal_cdf(float x) {
  const float s = x * x;
  const float p = vector_math::polynomial(s, 3.98942232e-1f, 3.43761258e-2f, 4.70725959e-3f, 1.73850713e-4f,
                                          6.35651304e-6f, 2.21451959e-8f);
  const float q =
      vector_math::polynomial(s, 1.0f, 2.52833873e-1f, 2.89400965e-2f, 1.91297836e-3f, 7.51018160e-5f, 1.18020705e-6f);
  return 0.5f + (s > 31.36f ? std::copysign(0.5f, x) : x * p / q);
}

// Returns (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which approximates the normal distribution function and
// rounds to 1 at 5.1.
FOLDGRAD_HD inline float fast_tanh_cdf(float x) {
  const float s = x * x;
  const float p = vector_math::polynomial(s, 3.98942322e-1f, 3.04327551e-2f, 3.62876779e-3f, 1.33292822e-4f,
                                          6.98540180e-6f, 2.35354261e-8f);
  const float q =
      vector_math::polynomial(s, 1.0f, 2.43775919e-1f, 2.43533272e-2f, 1.29672443e-3f, 7.53987842e-5f, 1.29641774e-6f);
  return 0.5f + (s > 26.01f ? std::copysign(0.5f, x) : x * p / q);
}

FOLDGRAD_HD inline double fast_exp(double x) { return std::exp(x); }
FOLDGRAD_HD inline double fast_exp_nonpositive(double x) { return std::exp(x); }
FOLDGRAD_HD inline double fast_tanh(double x) { return std::tanh(x); }
FOLDGRAD_HD inline double fast_erf(double x) { return std::erf(x); }
FOLDGRAD_HD inline double fast_normal_cdf(double x) { return 0.5 + 0.5 * std::erf(x * 0.70710678118654752); }
FOLDGRAD_HD inline double fast_tanh_cdf(double x) {
  return 0.5 + 0.5 * std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
}
FOLDGRAD_HD inline double fast_sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

}  // namespace foldgrad
