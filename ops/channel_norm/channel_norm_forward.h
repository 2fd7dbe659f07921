// The statistics of channel_norm's forward pass, in the order of Algorithm 2 of the paper: statistic, outlier test,
// average, window, running value. Kernels include this file.
#pragma once
#include "engine/dtype.h"
#include "ops/channel_norm/channel_norm_skip.h"

namespace foldgrad {

// The buffers of ChannelNormState. A pointer is null if the method does not need that buffer.
template <class S>
struct ChannelBuffers {
  S *run_mean, *run_var, *psi_ema;  // [C]
  S *win_sq, *win_g;                // [M_f, C], [M_b, C]
  std::int64_t *iters, *skips;      // []
  std::int64_t* skips_in_a_row;     // [C]
};

// The values that a forward pass saves for its backward pass.
template <class S>
struct ChannelContext {
  // kSkip: the channel skipped the iteration, so psi = G; the released form with M = 1 sets this flag, too. kHeld: the
  // running estimates normalize the channel. kConstant: the variance is clamped, so it does not depend on x.
  enum Flag : std::uint8_t { kSkip = 1, kHeld = 2, kConstant = 4 };

  S *mean, *rstd, *r;    // [C]
  std::uint8_t* flags;   // [C]
  double* iteration;     // []
  std::int64_t counted;  // n, the number of rows that enter the statistics

  FOLDGRAD_HD bool flag(std::int64_t c, Flag which) const { return flags[c] & which; }
};

// Turns a batch's moments into the mean and gain of each channel. Channels are independent, so threads may process them
// in any order.
template <class T>
struct ChannelForward {
  using S = compute_t<T>;
  using Context = ChannelContext<S>;
  using SkipTerms = channel_norm_math::SkipTerms;
  using Window = channel_norm_math::Window<S>;

  ChannelNormOptions options;
  bool training;
  std::int64_t columns;
  ChannelBuffers<S> state;
  Context context;
  const double *batch_mean, *batch_square;  // [C], from ChannelMoments; null if not training
  const T* gamma;                           // [C]
  S* gain;                                  // [C]: y = gain * (x - mean) + beta

  // Returns true if run() needs the sum of terms() over all channels. Otherwise each channel decides for itself.
  FOLDGRAD_HD bool layer_decides() const { return filters() && options.granularity != Granularity::channel; }
  FOLDGRAD_HD SkipTerms terms(std::int64_t c) const {
    return channel_norm_math::skip_terms(options, window(c), slot(), statistic(c));
  }

  // Runs Algorithm 2 for channel c. Returns true if the iteration counts as a skip: the batch is an
  // outlier, or the running estimates normalized it.
  FOLDGRAD_HD bool run(std::int64_t c, const SkipTerms& layer) const {
    const double run_var = state.run_var[c], run_mean = state.run_mean ? double(state.run_mean[c]) : 0;
    if (!training || uses_running(c)) {
      normalize(c, run_mean, run_var, /*r=*/1);
      context.flags[c] = std::uint8_t(training ? Context::kHeld : 0);
      return training;
    }
    const double q = statistic(c), mean = has_mean() ? batch_mean[c] : 0;
    const bool skip = is_outlier(c, layer);
    const Window after = window(c).with(slot(), q);
    double var_hat = q;
    if (!skip && channel_norm_math::active(options, iteration())) {
      if (options.forward == ForwardAverage::arithmetic) var_hat = arithmetic_mean(after);
      if (options.forward == ForwardAverage::geometric)
        var_hat = geometric_mean(after, channel_norm_math::least_entry(options));  // [UN-16]
      if (options.forward == ForwardAverage::exponential)
        var_hat = channel_norm_math::ema(options.alpha_forward, run_var, q);  // [UN-14]
    }
    normalize(c, mean, var_hat, rescale(skip, var_hat, run_var));
    context.flags[c] = flags(skip, var_hat);
    if (windowed())
      channel_norm_math::store(options, state.win_sq[slot() * columns + c], skip ? run_var : q);  // [CN-5]
    if (!keeps_running(c, skip)) update_running(c, run_mean, run_var, q, var_hat);
    return skip;
  }

  // Call this once, after run() has returned for all channels. `skipped` is true if any call returned true.
  FOLDGRAD_HD void finish(bool skipped) const {
    *context.iteration = iteration();
    if (!training) return;
    *state.iters += 1;
    if (skipped) *state.skips += 1;
  }

 private:
  FOLDGRAD_HD double iteration() const { return training ? double(*state.iters) + 1 : double(*state.iters); }
  FOLDGRAD_HD bool filters() const { return training && channel_norm_math::filters(options, iteration()); }
  FOLDGRAD_HD bool has_mean() const { return options.statistic == ChannelStatistic::variance; }
  FOLDGRAD_HD bool windowed() const { return channel_norm_math::has_window(options.forward); }
  FOLDGRAD_HD std::int64_t slot() const { return std::int64_t(iteration()) % options.window_forward; }
  // Returns the window before this iteration.
  FOLDGRAD_HD Window window(std::int64_t c) const { return {state.win_sq + c, options.window_forward, columns}; }
  // Returns true for the released UN with M = 1, which computes no averages.
  FOLDGRAD_HD bool single() const {
    return options.form == ChannelForm::released && windowed() && options.window_forward == 1;
  }

  // Returns q, rounded as the window stores it, so that a repeated value equals the stored one. Without
  // hold_non_finite, a q too large to be stored still normalizes its own batch.
  FOLDGRAD_HD double statistic(std::int64_t c) const {
    return options.hold_non_finite ? double(S(batch_square[c])) : channel_norm_math::as_stored<S>(batch_square[c]);
  }

  // Returns true if the running estimates normalize the channel, because there are too few rows (a variance needs two)
  // or the batch's statistics are not finite.
  FOLDGRAD_HD bool uses_running(std::int64_t c) const {
    if (context.counted < (has_mean() ? 2 : 1)) return true;
    return options.hold_non_finite &&
           !(channel_norm_math::finite(statistic(c)) && channel_norm_math::finite(batch_mean[c]));
  }
  // Returns true if the batch is an outlier, so that the channel skips this iteration.
  FOLDGRAD_HD bool is_outlier(std::int64_t c, const SkipTerms& layer) const {
    const double entries = double(options.window_forward) * double(columns);
    const bool own = options.granularity == Granularity::channel;
    return filters() && channel_norm_math::fires<S>(options, own ? terms(c) : layer, entries);  // [UN-19]
  }
  // Returns true if run_var must not change (`hold_on_skip`). Counts consecutive skips: after kLongestHold of them, the
  // statistic is considered to have changed for good, and run_var follows it.
  FOLDGRAD_HD bool keeps_running(std::int64_t c, bool skip) const {
    if (!options.hold_on_skip) return false;
    std::int64_t& in_a_row = state.skips_in_a_row[c];
    in_a_row = skip ? in_a_row + 1 : 0;
    return skip && in_a_row <= kLongestHold;
  }
  FOLDGRAD_HD double rescale(bool skip, double var_hat, double run_var) const {
    return skip || single() ? 1 : channel_norm_math::rescale(options, iteration(), var_hat, run_var);
  }
  FOLDGRAD_HD std::uint8_t flags(bool skip, double var_hat) const {
    const bool constant = options.clamped_variance && var_hat <= options.eps;
    return std::uint8_t((skip || single() ? Context::kSkip : 0) | (constant ? Context::kConstant : 0));
  }
  // Saves the channel's mean and factors, and sets its gain.
  FOLDGRAD_HD void normalize(std::int64_t c, double mean, double variance, double r) const {
    const double rstd = channel_norm_math::rstd(variance, options);
    context.mean[c] = S(mean);
    context.rstd[c] = S(rstd);
    context.r[c] = S(r);
    gain[c] = S(double(gamma[c]) * rstd * (options.rescale == Rescale::both ? r : 1));  // [UN-1]
  }
  FOLDGRAD_HD void update_running(std::int64_t c, double run_mean, double run_var, double q, double var_hat) const {
    const double alpha = options.alpha_forward, n = double(context.counted);
    double value = var_hat;
    if (has_mean() && !options.clamped_variance) value = var_hat * (n / (n - 1));  // [BN-1]
    if (options.forward == ForwardAverage::exponential) value = q;                 // var_hat is already this average
    const double variance = channel_norm_math::ema(alpha, run_var, value);         // [CN-6]
    if (options.finite_state && !channel_norm_math::finite(double(S(variance)))) return;  // run_mean is kept, too
    state.run_var[c] = S(variance);
    if (has_mean()) state.run_mean[c] = S(channel_norm_math::ema(alpha, run_mean, batch_mean[c]));
  }
};

}  // namespace foldgrad
