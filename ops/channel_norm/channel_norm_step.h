// The two steps of channel_norm between its passes over the matrix: parameter structs whose members handle one channel
// and read nothing that another channel writes, so that any order and any thread will do.
#pragma once
#include "engine/grad_out.h"
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad {

// The buffers of ChannelNormState; null where the method has none.
template <class S>
struct ChannelBuffers {
  S *run_mean, *run_var;        // [C]; in the form `power` run_var is phi
  S* psi_ema;                   // [C]; in the form `power` nu_ema
  S *win_sq, *win_g;            // [M_f, C], [M_b, C]
  std::int64_t *iters, *skips;  // []
};

// What a forward pass leaves for its backward pass.
template <class S>
struct ChannelContext {
  static constexpr int kRows = 4;
  enum Flag : std::uint8_t { kSkip = 1, kHeld = 2, kConstant = 4 };

  S* saved;             // [kRows, C]: mean, rstd, r and rstd as backward divides by it
  std::uint8_t* flags;  // [C]
  double* call;         // [2]: its iteration, its number of real positions
  std::int64_t columns;

  FOLDGRAD_HD S& mean(std::int64_t c) const { return saved[c]; }
  FOLDGRAD_HD S& rstd(std::int64_t c) const { return saved[columns + c]; }
  FOLDGRAD_HD S& r(std::int64_t c) const { return saved[2 * columns + c]; }
  FOLDGRAD_HD S& slope(std::int64_t c) const { return saved[3 * columns + c]; }
  FOLDGRAD_HD double iteration() const { return call[0]; }
  FOLDGRAD_HD double positions() const { return call[1]; }
};

// Order: propose() for every channel, the totals added up, decide() for every channel, finish() once.
template <class T>
struct ChannelForwardStep {
  using S = compute_t<T>;
  ChannelNormOptions options;
  bool training;
  std::int64_t columns;
  ChannelBuffers<S> state;
  ChannelContext<S> context;
  const double* moments;  // [2, C]: mean, mean of (x - mean)^2; without a mean, nothing and the mean of x^2
  const T* gamma;         // [C]
  S* gain;                // [C]: y = gain (x - mean) + beta

  FOLDGRAD_HD double iteration() const { return training ? double(*state.iters) + 1 : double(*state.iters); }
  FOLDGRAD_HD bool filters() const { return training && channel_norm_math::filters(options, iteration()); }

  FOLDGRAD_HD channel_norm_math::LayerTotals propose(std::int64_t c) const {
    return channel_norm_math::propose(options, window(c), slot(), q(c));
  }

  // Returns whether the step counts as skipped for this channel.
  FOLDGRAD_HD bool decide(std::int64_t c, const channel_norm_math::LayerTotals& layer) const {
    const double run_mean = state.run_mean ? double(state.run_mean[c]) : 0;
    const double run_var = state.run_var[c];
    if (!training || held(c)) {
      save(c, run_mean, run_var, run_var, 1, training ? ChannelContext<S>::kHeld : 0);
      return training;
    }
    if (options.form == ChannelForm::power) return decide_power(c, run_var);
    const bool outlier = filters() && is_outlier(c, layer);
    const double var_hat = average(c, outlier, run_var);
    const bool single = options.form == ChannelForm::released && windowed() && options.window_forward == 1;
    const double r = outlier || single ? 1 : channel_norm_math::rescale(options, iteration(), var_hat, run_var);
    save(c, options.statistic == ChannelStatistic::variance ? moments[c] : 0, var_hat, var_hat, r,
         (outlier || single ? ChannelContext<S>::kSkip : 0) |
             (options.clamped_variance && var_hat <= options.eps ? ChannelContext<S>::kConstant : 0));
    if (windowed()) state.win_sq[slot() * columns + c] = outlier ? S(run_var) : S(q(c));
    if (!(outlier && options.hold_on_skip)) update_running(c, run_mean, run_var, var_hat);
    return outlier;
  }

  FOLDGRAD_HD void finish(bool skipped) const {
    context.call[0] = iteration();
    if (!training) return;
    *state.iters += 1;
    if (skipped) *state.skips += 1;
  }

 private:
  FOLDGRAD_HD bool windowed() const { return channel_norm_math::has_window(options.forward); }
  FOLDGRAD_HD std::int64_t slot() const { return std::int64_t(iteration()) % options.window_forward; }
  FOLDGRAD_HD channel_norm_math::Window<S> window(std::int64_t c) const {
    return {state.win_sq + c, options.window_forward, columns};
  }
  // Rounded as it is stored, so that a value that comes again equals the stored one.
  FOLDGRAD_HD double q(std::int64_t c) const { return double(S(moments[columns + c])); }

  // No positions to take statistics of (a variance needs two), or not finite: nothing is written.
  FOLDGRAD_HD bool held(std::int64_t c) const {
    const bool variance = options.statistic == ChannelStatistic::variance;
    if (context.positions() < (variance ? 2 : 1)) return true;
    return options.hold_non_finite &&
           !(channel_norm_math::finite(q(c)) && (!variance || channel_norm_math::finite(moments[c])));
  }
  FOLDGRAD_HD bool is_outlier(std::int64_t c, const channel_norm_math::LayerTotals& layer) const {
    const double entries = double(options.window_forward) * double(columns);
    return channel_norm_math::outlier<S>(options, options.granularity == Granularity::channel ? propose(c) : layer,
                                         entries);
  }
  FOLDGRAD_HD double average(std::int64_t c, bool outlier, double run_var) const {
    if (outlier || !channel_norm_math::active(options, iteration())) return q(c);
    switch (options.forward) {
      case ForwardAverage::none:
        return q(c);
      case ForwardAverage::exponential:
        return channel_norm_math::ema(options.alpha_forward, run_var, q(c));  // [UN-14]
      case ForwardAverage::arithmetic:
        return channel_norm_math::mean(window(c), slot(), q(c));
      case ForwardAverage::geometric:
        break;
    }
    const double floor = options.form == ChannelForm::released ? 0 : 1e-38;
    return channel_norm_math::means(window(c), slot(), q(c), floor).geometric;  // [UN-16]
  }
  FOLDGRAD_HD void update_running(std::int64_t c, double run_mean, double run_var, double var_hat) const {
    const double alpha = options.alpha_forward, n = context.positions();
    if (options.statistic == ChannelStatistic::variance) {
      state.run_mean[c] = S(channel_norm_math::ema(alpha, run_mean, moments[c]));
      if (!options.clamped_variance) var_hat *= n / (n - 1);  // [BN-1]
    }
    if (options.forward == ForwardAverage::exponential) var_hat = q(c);  // run_var is that average itself
    state.run_var[c] = S(channel_norm_math::ema(alpha, run_var, var_hat));
  }
  FOLDGRAD_HD bool decide_power(std::int64_t c, double phi) const {
    const double t = iteration();
    save(c, 0, t <= double(options.warmup) ? q(c) : phi, q(c), 1, 0);  // [PN-1]
    if (t < double(options.warmup)) phi = phi * (t - 1) / t + q(c) / t;
    state.run_var[c] = S(channel_norm_math::ema(options.alpha_forward, phi, q(c)));  // [PN-2]
    return false;
  }
  FOLDGRAD_HD void save(std::int64_t c, double mean, double variance, double backward_variance, double r,
                        int flags) const {
    const double rstd = channel_norm_math::rstd(variance, options);
    context.mean(c) = S(mean);
    context.rstd(c) = S(rstd);
    context.r(c) = S(r);
    context.slope(c) = S(channel_norm_math::rstd(backward_variance, options));
    context.flags[c] = std::uint8_t(flags);
    gain[c] = S(double(gamma[c]) * rstd * (options.rescale == Rescale::both ? r : 1));
  }
};

template <class T>
struct ChannelBackwardStep {
  using S = compute_t<T>;
  ChannelNormOptions options;
  bool training;
  std::int64_t rows, columns;
  ChannelBuffers<S> state;
  ChannelContext<S> context;
  const double* sums;        // [kSums, C]: of dy, dy (x - mean) and, in the form `power`, (x - mean)^2
  const T* gamma;            // [C]
  GradOut<T> dgamma, dbeta;  // [C]
  S* coefficients;           // [3, C]: dx = a dy - b - e (x - mean), the last two terms at corrected positions

  FOLDGRAD_HD void decide(std::int64_t c) const {
    const double rstd = context.rstd(c), r = context.r(c), slope = context.slope(c), g = gamma[c];
    const double own = r * rstd * sums[columns + c];
    if (dgamma) dgamma.put(c, S(own));  // [CN-3]
    if (dbeta) dbeta.put(c, S(sums[c]));
    double psi_mean = 0, psi = 0;
    if (training) {
      const double n = options.form == ChannelForm::paper ? context.positions() : double(rows);
      psi = options.form == ChannelForm::power ? power(c, g * own / n, rstd) : average(c, g * own / n);
      if (options.statistic == ChannelStatistic::variance && !flag(c, ChannelContext<S>::kHeld))
        psi_mean = g * sums[c] / n;  // [BN-2]
    }
    coefficients[c] = S(g * r * slope);  // [CN-2]
    coefficients[columns + c] = S(psi_mean * slope);
    coefficients[2 * columns + c] = S(psi * slope * rstd);
  }

 private:
  FOLDGRAD_HD bool flag(std::int64_t c, std::uint8_t which) const { return context.flags[c] & which; }

  // psi from this pass's gradient statistic G = mean(h z), both of its ring slot and of its own forward's decisions.
  FOLDGRAD_HD double average(std::int64_t c, double G) const {
    const double t = context.iteration(), psi_ema = state.psi_ema ? double(state.psi_ema[c]) : 0;
    const bool skip = flag(c, ChannelContext<S>::kSkip), released = options.form == ChannelForm::released;
    if (flag(c, ChannelContext<S>::kConstant)) return 0;
    if (flag(c, ChannelContext<S>::kHeld)) return psi_ema;
    if (options.hold_non_finite && !channel_norm_math::finite(G)) return psi_ema;
    double m = G;
    if (state.win_g) {
      const std::int64_t M = options.window_backward, slot = std::int64_t(t) % M;
      if (!skip && t > double(M) && t >= double(options.warmup))
        m = channel_norm_math::mean(channel_norm_math::Window<S>{state.win_g + c, M, columns}, slot, G);
      if (!skip || state.psi_ema) state.win_g[slot * columns + c] = S(skip ? psi_ema : G);
    }
    const double next = next_ema(psi_ema, m, skip);
    if (state.psi_ema) state.psi_ema[c] = S(next);
    const bool averaged = released || channel_norm_math::active(options, t);
    if (skip || !averaged || options.backward == BackwardAverage::none) return G;
    return state.psi_ema ? next : m;
  }
  FOLDGRAD_HD double next_ema(double psi_ema, double m, bool skip) const {
    if (skip && options.psi_after_skip == PsiAfterSkip::literal) return m;
    if (skip && options.psi_after_skip == PsiAfterSkip::freeze) return psi_ema;
    return channel_norm_math::ema(options.alpha_backward, psi_ema, m);  // [UN-17]
  }
  FOLDGRAD_HD double power(std::int64_t c, double G, double rstd) const {
    const double nu_ema = state.psi_ema[c], psi = (1 - options.alpha_backward) * nu_ema;
    if (flag(c, ChannelContext<S>::kHeld)) return psi;
    state.psi_ema[c] = S(nu_ema + G - psi * rstd * rstd * sums[2 * columns + c] / double(rows));  // [PN-3]
    return psi;
  }
};

}  // namespace foldgrad
