// Element-wise kernels (engine/cpu/elementwise.h) over channels or over the matrix [rows, columns], and sums by column
// (ops/channel_sums/channel_sums_kernels.h).
#pragma once
#include "engine/kernels.h"
#include "ops/channel_sums/channel_sums_kernels.h"
#include "ops/power_norm/power_norm_math.h"

namespace foldgrad {

// One element: the counters, before the other steps of an iteration of training.
struct PowerNormCount {
  static constexpr const char* kName = "power_norm count";
  static constexpr std::int64_t n = 1;

  std::int64_t *iters, *skips;
  std::int64_t counted;  // rows

  FOLDGRAD_HD void operator()(std::int64_t) const {
    *iters += 1;
    if (counted == 0) *skips += 1;
  }
};

template <class T>
struct PowerNormForwardStep {
  static constexpr const char* kName = "power_norm forward step";
  using S = compute_t<T>;

  std::int64_t n;  // columns
  double warmup, alpha, eps;
  const std::int64_t* iters;
  const double* square;           // [columns], see ChannelMoments; null when not training
  std::int64_t counted;           // rows
  const T* gamma;                 // [columns]
  S *phi, *rstd, *rstd_q, *gain;  // [columns]: state; of z; of q; y = gain x + beta

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const bool counts = square && counted > 0;
    const double t = double(*iters), old = phi[c], q = counts ? double(S(square[c])) : old;
    const double rstd_z = power_norm_math::rstd(power_norm_math::variance(t, warmup, q, old), eps);
    rstd[c] = S(rstd_z);
    rstd_q[c] = S(power_norm_math::rstd(q, eps));
    gain[c] = S(double(gamma[c]) * rstd_z);
    if (counts) phi[c] = S(power_norm_math::next_phi(t, warmup, alpha, q, old));
  }
};

template <class T>
struct PowerNormApply {
  static constexpr const char* kName = "power_norm forward";
  T* y;
  const T *x, *beta;
  const compute_t<T>* gain;
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    return gain[c] * compute_t<T>(x[i]) + compute_t<T>(beta[c]);  // [PN-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gain), visit.column(beta));
};

template <class T>
struct PowerNormSums {
  using Value = compute_t<T>;
  static constexpr int kSums = 3;

  const T *dy, *x;
  std::int64_t rows, columns;
  double* partials;     // [blocks, kSums, columns]
  double* sums[kSums];  // of dy, dy x, x^2

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&own)[kSums]) const {
    const Value dy_i = dy[r * columns + c], x_i = x[r * columns + c];
    own[0] += dy_i;
    own[1] += dy_i * x_i;
    own[2] += x_i * x_i;
  }
  FOLDGRAD_OPERANDS(visit.element(dy), visit.element(x));
};

template <class T>
struct PowerNormBackwardStep {
  static constexpr const char* kName = "power_norm backward step";
  using S = compute_t<T>;

  bool training;
  double alpha;
  std::int64_t rows, n;                      // n: columns
  std::int64_t counted;                      // rows
  const double *sum_dy, *sum_dy_x, *sum_xx;  // [columns]
  const T* gamma;                            // [columns]
  const S *rstd, *rstd_q;                    // [columns]
  S* nu_ema;                                 // [columns]
  ParameterGradOut<T> dgamma, dbeta;         // [columns]
  S *dy_factor, *x_factor;                   // [columns]: dx = dy_factor dy - x_factor x

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double rstd_z = rstd[c], gamma_c = gamma[c], nu = nu_ema[c], sum_dy_z = rstd_z * sum_dy_x[c];
    if (dgamma) dgamma.put(c, S(sum_dy_z));
    if (dbeta) dbeta.put(c, S(sum_dy[c]));
    const double psi = training ? (1 - alpha) * nu : 0, P = double(rows);
    dy_factor[c] = S(gamma_c * rstd_q[c]);
    x_factor[c] = S(psi * rstd_q[c] * rstd_z);
    if (!training || counted == 0) return;
    nu_ema[c] = S(power_norm_math::next_nu(nu, gamma_c * sum_dy_z / P, psi, rstd_z, sum_xx[c], P));
  }
};

template <class T>
struct PowerNormGradient {
  static constexpr const char* kName = "power_norm backward of x";
  GradOut<T> dx;
  const T *dy, *x;
  const compute_t<T>*dy_factor, *x_factor;
  std::int64_t rows, columns;

  FOLDGRAD_HD GradOut<T> target() const { return dx; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    return dy_factor[c] * compute_t<T>(dy[i]) - x_factor[c] * compute_t<T>(x[i]);  // [PN-3]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(dy_factor),
                    visit.column(x_factor));
};

FOLDGRAD_DECLARE(power_norm_sums, PowerNormSums);

}  // namespace foldgrad
