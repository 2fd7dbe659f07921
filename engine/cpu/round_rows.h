// Values of the arithmetic into what is stored.
#pragma once
#include "engine/dtype.h"

namespace foldgrad {

inline void round_to(std::int64_t n, const double* x, double* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
}
inline void round_to(std::int64_t n, const float* x, float* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
}
// As bf16's constructor rounds, with integers alone: GCC 12 makes no vectors of a comparison of floats here.
inline void round_to(std::int64_t n, const float* x, bf16* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t wide;
    std::memcpy(&wide, x + i, sizeof wide);
    const std::uint32_t rounded = (wide + 0x7fffu + (wide >> 16 & 1u)) >> 16;
    y[i].bits = std::uint16_t((wide & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
}

}  // namespace foldgrad
