// The per-channel part of channel_norm's backward pass: it turns sums over the rows into psi, with the iteration number
// and the decisions of the matching forward pass. Kernels include this file.
#pragma once
#include "engine/grad_out.h"
#include "ops/channel_norm/channel_norm_forward.h"

namespace foldgrad {

// The coefficients of each channel in dx = dy_factor * dy - (offset + x_factor * (x - mean)). For padding, the second
// term is 0.
template <class S>
struct ChannelCoefficients {
  S *dy_factor, *offset, *x_factor;  // [C]
};

// Turns a channel's sums over the positions into psi and into the factors of dx.
template <class T>
struct ChannelBackward {
  static constexpr const char* kName = "channel_norm backward step";
  using S = compute_t<T>;
  using Context = ChannelContext<S>;

  ChannelNormOptions options;
  bool training;
  std::int64_t rows, n;  // n is the number of channels here, since the element-wise loop runs over channels
  double share;          // factor of dgamma and dbeta: 1 / ranks if the sums cover all ranks, which later add these
  ChannelBuffers<S> state;
  Context context;
  const double *sum_dy, *sum_dy_x;    // [C], from ChannelGradientSums
  const T* gamma;                     // [C]
  ParameterGradOut<T> dgamma, dbeta;  // [C]
  ChannelCoefficients<S> factors;

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double rstd = context.rstd[c], r = context.r[c], gamma_c = gamma[c];
    const double sum_dy_z = r * rstd * sum_dy_x[c];
    if (dgamma) dgamma.put(c, S(share * sum_dy_z));  // [CN-3]
    if (dbeta) dbeta.put(c, S(share * sum_dy[c]));   // [CN-3]
    // The released form divides by the number of all rows, including padding.
    const double count = double(options.form == ChannelForm::paper && training ? context.counted : rows);
    const double psi = training ? update_psi(c, gamma_c * sum_dy_z / count) : 0;
    const double psi_mu = through_mean(c) ? gamma_c * sum_dy[c] / count : 0;  // [BN-2]
    factors.dy_factor[c] = S(gamma_c * r * rstd);
    factors.offset[c] = S(psi_mu * rstd);
    factors.x_factor[c] = S(psi * rstd * rstd);
  }

 private:
  FOLDGRAD_HD bool through_mean(std::int64_t c) const {
    return training && options.statistic == ChannelStatistic::variance && !context.flag(c, Context::kHeld);
  }

  // Updates psi_ema and the window with this pass's gradient statistic G = mean(h z), and returns psi.
  FOLDGRAD_HD double update_psi(std::int64_t c, double G) const {
    const double psi_ema = state.psi_ema ? double(state.psi_ema[c]) : 0;
    if (context.flag(c, Context::kConstant)) return 0;
    if (keeps_psi(c, G)) return psi_ema;
    const bool skip = context.flag(c, Context::kSkip);
    const double m = window_mean(c, G, skip), next = next_ema(psi_ema, m, skip);
    store_entry(c, G, skip, psi_ema);
    if (state.psi_ema) channel_norm_math::store(options, state.psi_ema[c], next);
    if (skip || !averages()) return G;
    return state.psi_ema ? next : m;
  }
  FOLDGRAD_HD bool keeps_psi(std::int64_t c, double G) const {
    return context.flag(c, Context::kHeld) || (options.hold_non_finite && !channel_norm_math::finite(G));
  }

  FOLDGRAD_HD std::int64_t slot() const { return std::int64_t(*context.iteration) % options.window_backward; }
  FOLDGRAD_HD double window_mean(std::int64_t c, double G, bool skip) const {
    const double t = *context.iteration, M = double(options.window_backward);
    if (!state.win_g || skip || t <= M || t < double(options.warmup)) return G;
    const channel_norm_math::Window<S> window{state.win_g + c, options.window_backward, n};
    return channel_norm_math::arithmetic_mean(window.with(slot(), G));
  }
  FOLDGRAD_HD double next_ema(double psi_ema, double m, bool skip) const {
    if (skip && options.psi_after_skip == PsiAfterSkip::literal) return m;
    if (skip && options.psi_after_skip == PsiAfterSkip::freeze) return psi_ema;
    return channel_norm_math::ema(options.alpha_backward, psi_ema, m);  // [UN-17]
  }
  // Writes this iteration's entry of the window.
  FOLDGRAD_HD void store_entry(std::int64_t c, double G, bool skip, double psi_ema) const {
    if (!state.win_g || (skip && !state.psi_ema)) return;
    channel_norm_math::store(options, state.win_g[slot() * n + c], skip ? psi_ema : G);  // [CN-5]
  }
  FOLDGRAD_HD bool averages() const {
    if (options.backward == BackwardAverage::none) return false;
    return options.form == ChannelForm::released || channel_norm_math::active(options, *context.iteration);
  }
};

}  // namespace foldgrad
