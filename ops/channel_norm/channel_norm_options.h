// The choices that make a member of the family of channel_norm.h. Included by kernels: C++17, no libraries.
#pragma once
#include <cstdint>

namespace foldgrad {

enum class ChannelStatistic : std::uint8_t { variance, mean_square };  // mean_square: nothing is subtracted
enum class ForwardAverage : std::uint8_t { none, arithmetic, geometric, exponential };
enum class BackwardAverage : std::uint8_t { none, arithmetic, exponential, arithmetic_exponential };

// `paper`: exact gradients while nothing is averaged yet; gradient statistics are means over the real positions.
// `released`: as the authors' code for UN computes, see channel_norm.h.
enum class ChannelForm : std::uint8_t { paper, released };

// The windows that decide about an outlier, and the channels that then skip the iteration.
enum class Granularity : std::uint8_t {
  channel,    // each channel about itself
  layer_any,  // any channel about all
  layer_sum,  // the sums over the channels about all; after a lasting change it may skip for ever
  pooled      // any channel about all, with one threshold from the entries of all channels, as released; where the
              // channels have equal levels it may skip for ever
};
// The value of psi_ema after a skip: the average with the skipped G in it, that G alone, the old value.
enum class PsiAfterSkip : std::uint8_t { ema, literal, freeze };
enum class Rescale : std::uint8_t { none, backward, both };  // where the factor r of the released forms multiplies

inline constexpr std::int64_t kLongestHold = 32;  // iterations

struct ChannelNormOptions {
  ChannelStatistic statistic = ChannelStatistic::mean_square;
  ForwardAverage forward = ForwardAverage::geometric;
  BackwardAverage backward = BackwardAverage::arithmetic_exponential;
  ChannelForm form = ChannelForm::paper;
  std::int64_t window_forward = 4, window_backward = 4;  // M_f, M_b
  std::int64_t warmup = 4000;                            // averages from this iteration on; the first is 1
  double alpha_forward = 0.9, alpha_backward = 0.9;      // weights of the old value
  double eps = 1e-5;

  bool filtration = false;  // look for outliers, and skip their iterations
  Granularity granularity = Granularity::pooled;
  int ddof = 1;                 // of the variance in the threshold
  bool flag_low = true;         // treat drops of the statistic as outliers as well
  bool hold_on_skip = false;    // run_var stays as it is at a skip, of kLongestHold in a row at most (ours)
  bool hold_non_finite = true;  // a channel with NaN or infinity uses its running estimates and writes none (ours)
  bool finite_state = true;     // no state takes NaN or infinity: it keeps the old value (ours)
  PsiAfterSkip psi_after_skip = PsiAfterSkip::ema;

  Rescale rescale = Rescale::none;
  bool clamped_variance = false;  // sqrt(max(v, eps)) for sqrt(v + eps), and no n/(n-1) in the running variance

  // Return members of the family, as published.
  static ChannelNormOptions bn();
  static ChannelNormOptions rbn();
  static ChannelNormOptions qmbn();
  static ChannelNormOptions mabn();
  static ChannelNormOptions mabn_released();  // of form `paper`: M = 1 and padding are no special case
  static ChannelNormOptions pn_star();
  static ChannelNormOptions un();
  static ChannelNormOptions un_released();
};

}  // namespace foldgrad
