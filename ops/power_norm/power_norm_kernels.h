// The per-channel steps of power_norm (engine/cpu/elementwise.h). For the elements, power_norm runs ChannelApply and
// ChannelGradient of ops/channel_norm/channel_norm_kernels.h.
#pragma once
#include <cmath>

#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {

// Updates the counters, before the other steps of a training iteration.
struct PowerNormCount {
  static constexpr const char* kName = "power_norm count";
  static constexpr std::int64_t n = 1;

  std::int64_t *iters, *skips;
  std::int64_t counted;  // number of rows that enter the statistics

  FOLDGRAD_HD void operator()(std::int64_t) const {
    *iters += 1;
    if (counted == 0) *skips += 1;
  }
};

template <class T>
struct PowerNormForwardStep {
  static constexpr const char* kName = "power_norm forward step";
  using S = compute_t<T>;

  std::int64_t n;  // number of columns
  double warmup, alpha, eps;
  const std::int64_t* iters;
  const double* square;           // [columns], mean squares from ChannelMoments; null if not training
  std::int64_t counted;           // number of rows that enter the statistics; 0 if not training
  const T* gamma;                 // [columns]
  S *phi, *rstd, *rstd_q, *gain;  // [columns]: the state phi, rstd of z and of q, and the gain in y = gain * x + beta

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double t = double(*iters), old = phi[c], q = counted > 0 ? double(S(square[c])) : old;
    const double rstd_z = 1 / std::sqrt((t <= warmup ? q : old) + eps);  // [PN-1]
    rstd[c] = S(rstd_z);
    rstd_q[c] = S(1 / std::sqrt(q + eps));
    gain[c] = S(double(gamma[c]) * rstd_z);
    if (counted == 0) return;
    const double cumulative = t < warmup ? old * (t - 1) / t + q / t : old;
    phi[c] = S(alpha * cumulative + (1 - alpha) * q);  // [PN-2]
  }
};

template <class T>
struct PowerNormBackwardStep {
  static constexpr const char* kName = "power_norm backward step";
  using S = compute_t<T>;

  bool training;
  double alpha;
  std::int64_t rows, n;               // n is the number of columns here
  double share;                       // factor of dgamma and dbeta: 1 / ranks if the sums cover all ranks
  std::int64_t counted;               // number of rows that enter the statistics; 0 if not training
  const double *sum_dy, *sum_dy_x;    // [columns], from ChannelGradientSums
  const double* square;               // [columns], mean square over all rows; null if not training
  const T* gamma;                     // [columns]
  const S *rstd, *rstd_q;             // [columns]
  S* nu_ema;                          // [columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  ChannelCoefficients<S> factors;     // this step does not write the offset

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double rstd_z = rstd[c], gamma_c = gamma[c], nu = nu_ema[c], sum_dy_z = rstd_z * sum_dy_x[c];
    if (dgamma) dgamma.put(c, S(share * sum_dy_z));
    if (dbeta) dbeta.put(c, S(share * sum_dy[c]));
    const double psi = training ? (1 - alpha) * nu : 0;
    factors.dy_factor[c] = S(gamma_c * rstd_q[c]);
    factors.x_factor[c] = S(psi * rstd_q[c] * rstd_z);
    if (counted == 0) return;
    const double G = gamma_c * sum_dy_z / double(rows);         // mean(h z)
    nu_ema[c] = S(nu + G - psi * rstd_z * rstd_z * square[c]);  // [PN-3]
  }
};

}  // namespace foldgrad
