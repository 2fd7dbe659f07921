// The formulas of power_norm.h: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>
#include <cstdint>

#include "engine/host_device.h"

namespace foldgrad::power_norm_math {

FOLDGRAD_HD inline double rstd(double variance, double eps) { return 1 / std::sqrt(variance + eps); }

// Returns the variance that normalizes z at iteration t.
FOLDGRAD_HD inline double variance(double t, double warmup, double q, double phi) {
  return t <= warmup ? q : phi;  // [PN-1]
}
FOLDGRAD_HD inline double next_phi(double t, double warmup, double alpha, double q, double phi) {
  const double cumulative = t < warmup ? phi * (t - 1) / t + q / t : phi;
  return alpha * cumulative + (1 - alpha) * q;  // [PN-2]
}
// From G = mean(h z), the sum of x^2 over the P positions, and psi = (1 - alpha) nu_ema.
FOLDGRAD_HD inline double next_nu(double nu_ema, double G, double psi, double rstd, double sum_xx, double P) {
  return nu_ema + G - psi * rstd * rstd * sum_xx / P;  // [PN-3]
}

}  // namespace foldgrad::power_norm_math
