// exp, tanh, sigmoid and erf of float without branches and calls, so that loops over them vectorise, and the same
// formula on both devices. Within 2.5 units in the last place of the exact value (erf: 4.5) over the whole range,
// subnormal results included; infinities give the limits, NaN stays NaN. The overloads for double are the standard
// library's: gradients are checked in double.
//
// The polynomials are minimax fits (Remez, in 40 digits, then rounded), each with the error that it leaves.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/host_device.h"

namespace foldgrad {
namespace vector_math {

// x = n ln 2 + r with |r| <= ln(2) / 2. The lower bits of `bits` are those of n.
struct Reduced {
  std::uint32_t bits;
  float r;
};

FOLDGRAD_HD inline Reduced reduce(float x) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = std::fma(x, 1.44269504f, shift);
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const float n = shifted - shift;
  const float r = std::fma(n, -0.693147182f, x);  // ln 2 in two parts, whose sum has 48 bits
  return {bits, std::fma(n, 1.90465421e-9f, r)};
}

// (e^r - 1 - r) / r^2 of a reduced r; it leaves 2^-28 of e^r.
FOLDGRAD_HD inline float exp_tail(float r) {
  float q = 1.39542879e-3f;
  q = std::fma(q, r, 8.37475806e-3f);
  q = std::fma(q, r, 4.16661277e-2f);
  q = std::fma(q, r, 1.66664213e-1f);
  return std::fma(q, r, 0.5f);
}
FOLDGRAD_HD inline float exp_reduced(float r) { return std::fma(std::fma(exp_tail(r), r, 1.0f), r, 1.0f); }
FOLDGRAD_HD inline float expm1_reduced(float r) { return std::fma(r * r, exp_tail(r), r); }

// 2^n for -127 < n < 128, from the lower 9 bits of n.
FOLDGRAD_HD inline float power_of_two(std::uint32_t n) {
  const std::uint32_t bits = (n << 23) + 0x3F800000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Written so that NaN passes.
FOLDGRAD_HD inline float at_most(float x, float bound) { return bound < x ? bound : x; }
FOLDGRAD_HD inline float at_least(float x, float bound) { return bound > x ? bound : x; }

}  // namespace vector_math

FOLDGRAD_HD inline float fast_exp(float x) {
  using namespace vector_math;
  const Reduced reduced = reduce(at_least(at_most(x, 89.0f), -104.0f));  // beyond: infinity and 0
  // 2^n in two factors, each of which a float holds; only the second product can round.
  const std::uint32_t half = reduced.bits >> 1;
  return exp_reduced(reduced.r) * power_of_two(half) * power_of_two(reduced.bits - half);
}

// For x <= 0, in fewer steps: 2^(n + 64) always fits into one factor. Softmax and the like.
FOLDGRAD_HD inline float fast_exp_nonpositive(float x) {
  using namespace vector_math;
  const Reduced reduced = reduce(at_least(x, -104.0f));
  return exp_reduced(reduced.r) * power_of_two(reduced.bits + 64u) * 5.42101086e-20f;  // 2^-64
}

// (e^2a - 1) / (e^2a + 1), with e^2a - 1 = 2^n (e^r - 1) + (2^n - 1), which keeps the digits of a small a.
FOLDGRAD_HD inline float fast_tanh(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 10.0f);  // tanh(10) rounds to 1
  const Reduced reduced = reduce(2.0f * a);
  const float power = power_of_two(reduced.bits);
  const float e = std::fma(power, expm1_reduced(reduced.r), power - 1.0f);
  return std::copysign(e / (e + 2.0f), x);
}

// 1 / (1 + e^-x), from e^-|x|, which cannot overflow.
FOLDGRAD_HD inline float fast_sigmoid(float x) {
  const float e = fast_exp_nonpositive(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// x P(x^2) / Q(x^2), relative error 2^-25.5; all coefficients are positive, so no digits cancel.
FOLDGRAD_HD inline float fast_erf(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 3.95f);  // erf(3.95) rounds to 1
  const float s = a * a;
  float p = 2.02606179e-6f;
  p = std::fma(p, s, 2.84670270e-4f);
  p = std::fma(p, s, 3.80736869e-3f);
  p = std::fma(p, s, 5.28730229e-2f);
  p = std::fma(p, s, 1.91531897e-1f);
  p = std::fma(p, s, 1.12837911f);
  float q = 3.78324621e-5f;
  q = std::fma(q, s, 1.17053359e-3f);
  q = std::fma(q, s, 1.50535088e-2f);
  q = std::fma(q, s, 1.14552021e-1f);
  q = std::fma(q, s, 5.03073394e-1f);
  q = std::fma(q, s, 1.0f);
  return std::copysign(at_most(a * p / q, 1.0f), x);
}

FOLDGRAD_HD inline double fast_exp(double x) { return std::exp(x); }
FOLDGRAD_HD inline double fast_exp_nonpositive(double x) { return std::exp(x); }
FOLDGRAD_HD inline double fast_tanh(double x) { return std::tanh(x); }
FOLDGRAD_HD inline double fast_erf(double x) { return std::erf(x); }
FOLDGRAD_HD inline double fast_sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

}  // namespace foldgrad
