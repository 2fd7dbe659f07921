// exp, tanh, sigmoid and erf of float without branches and calls, so that loops over them vectorise, and the same
// formula on both devices. Within 2.5 units in the last place of the exact value over the whole range, subnormal
// results included; infinities give the limits, NaN stays NaN. The overloads for double are the standard library's:
// gradients are checked in double.
//
// The polynomials are minimax fits (Remez, in 40 digits, then rounded), each with the error that it leaves.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/host_device.h"

namespace foldgrad {
namespace vector_math {

// x = n ln 2 + r with |r| <= ln(2) / 2.
struct Reduced {
  std::uint32_t n;  // two's complement: arithmetic on it must wrap when x is NaN
  float r;
};

FOLDGRAD_HD inline Reduced reduce(float x) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = std::fma(x, 1.44269504f, shift);
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const float n = shifted - shift;
  const float r = std::fma(n, -0.693147182f, x);  // ln 2 in two parts, whose sum has 48 bits
  return {bits - 0x4B400000u, std::fma(n, 1.90465421e-9f, r)};
}

// e^r - 1 of a reduced r; relative error 2^-26.
FOLDGRAD_HD inline float expm1_reduced(float r) {
  float q = 1.39460352e-3f;
  q = std::fma(q, r, 8.36636499e-3f);
  q = std::fma(q, r, 4.16662917e-2f);
  q = std::fma(q, r, 1.66665450e-1f);
  q = std::fma(q, r, 0.5f);
  return std::fma(r * r, q, r);
}

// 2^n for -127 < n < 128.
FOLDGRAD_HD inline float power_of_two(std::uint32_t n) {
  const std::uint32_t bits = (n + 127u) << 23;
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
  const std::uint32_t half = ((reduced.n + 256u) >> 1) - 128u;
  return (1.0f + expm1_reduced(reduced.r)) * power_of_two(half) * power_of_two(reduced.n - half);
}

// For x <= 0, in three quarters of the time: what would be subnormal is 0. Softmax and the like.
FOLDGRAD_HD inline float fast_exp_nonpositive(float x) {
  using namespace vector_math;
  const Reduced reduced = reduce(at_least(x, -88.0f));  // where n = -127, whose "power" has the bits of 0
  return (1.0f + expm1_reduced(reduced.r)) * power_of_two(reduced.n);
}

// (e^2a - 1) / (e^2a + 1), with e^2a - 1 = 2^n (e^r - 1) + (2^n - 1), which keeps the digits of a small a.
FOLDGRAD_HD inline float fast_tanh(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 10.0f);  // tanh(10) rounds to 1
  const Reduced reduced = reduce(2.0f * a);
  const float power = power_of_two(reduced.n);
  const float e = std::fma(power, expm1_reduced(reduced.r), power - 1.0f);
  return std::copysign(e / (e + 2.0f), x);
}

// 1 / (1 + e^-x), from e^-|x|, which cannot overflow.
FOLDGRAD_HD inline float fast_sigmoid(float x) {
  const float e = fast_exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// erf(a) = a + a P(a^2) near zero, relative error 2^-25.7; from 0.93 on 1 - e^-(a + a Q(a)), error 2^-28.
FOLDGRAD_HD inline float fast_erf(float x) {
  using namespace vector_math;
  const float a = at_most(std::fabs(x), 4.0f);  // erf(4) rounds to 1
  const float s = a * a;
  float p = -5.92896831e-4f;
  p = std::fma(p, s, 4.98103630e-3f);
  p = std::fma(p, s, -2.67583542e-2f);
  p = std::fma(p, s, 1.12815894e-1f);
  p = std::fma(p, s, -3.76124710e-1f);
  p = std::fma(p, s, 1.28379151e-1f);
  float q = -2.14153828e-4f;
  q = std::fma(q, a, 3.21645127e-3f);
  q = std::fma(q, a, -2.28951238e-2f);
  q = std::fma(q, a, 1.05270505e-1f);
  q = std::fma(q, a, 6.35711253e-1f);
  q = std::fma(q, a, 1.28516600e-1f);
  const Reduced reduced = reduce(std::fma(-a, q, -a));  // in [-18, 0]: one factor holds 2^n
  const float power = power_of_two(reduced.n);
  const float far = (1.0f - power) - power * expm1_reduced(reduced.r);
  return std::copysign(a < 0.93f ? std::fma(a, p, a) : far, x);
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
