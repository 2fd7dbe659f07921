// The choices that define a member of channel_norm's family. Kernels include this file, so it must be C++17 and use no
// libraries.
#pragma once
#include <cstdint>

namespace foldgrad {

enum class ChannelStatistic : std::uint8_t { variance, mean_square };  // mean_square does not subtract the mean
enum class ForwardAverage : std::uint8_t { none, arithmetic, geometric, exponential };
enum class BackwardAverage : std::uint8_t { none, arithmetic, exponential, arithmetic_exponential };

// In the form `paper`, gradients are exact until averages begin, and gradient statistics are means over the positions
// in S. The form `released` computes what the code of UN's authors computes; see channel_norm.h.
enum class ChannelForm : std::uint8_t { paper, released };

// Determines which windows decide whether a batch is an outlier, and which channels then skip the iteration.
enum class Granularity : std::uint8_t {
  channel,    // each channel decides for itself
  layer_any,  // all channels skip if the test fires for any channel
  layer_sum,  // all channels skip if the test fires for sums over channels; a lasting change may make them skip forever
  pooled      // like layer_any, but one threshold for the entries of all channels, as in the released code; if the
              // entries of all channels are similar, they may skip forever
};
// The update of psi_ema after a skip. ema: average it with G; literal: replace it by G; freeze: keep it.
enum class PsiAfterSkip : std::uint8_t { ema, literal, freeze };
enum class Rescale : std::uint8_t { none, backward, both };  // the passes that multiply by r [MABN-1]

inline constexpr std::int64_t kLongestHold = 32;  // number of iterations

struct ChannelNormOptions {
  ChannelStatistic statistic = ChannelStatistic::mean_square;
  ForwardAverage forward = ForwardAverage::geometric;
  BackwardAverage backward = BackwardAverage::arithmetic_exponential;
  ChannelForm form = ChannelForm::paper;
  std::int64_t window_forward = 4, window_backward = 4;  // M_f and M_b, in iterations
  std::int64_t warmup = 4000;                            // the first iteration with averages; counted from 1
  double alpha_forward = 0.9, alpha_backward = 0.9;      // weights of the old value in the averages
  double eps = 1e-5;

  bool filtration = false;  // test for outliers, and skip iterations that contain one
  Granularity granularity = Granularity::pooled;
  int ddof = 1;                 // delta degrees of freedom of the threshold's variance
  bool flag_low = true;         // a drop in the statistic may also be an outlier
  bool hold_on_skip = false;    // a skip leaves run_var unchanged, at most kLongestHold times in a row (ours)
  bool hold_non_finite = true;  // a channel with NaN or infinity uses and keeps its running estimates (ours)
  bool finite_state = true;     // the state keeps its old value if the new one is NaN or infinity (ours)
  PsiAfterSkip psi_after_skip = PsiAfterSkip::ema;

  Rescale rescale = Rescale::none;
  bool clamped_variance = false;  // use sqrt(max(v, eps)) instead of sqrt(v + eps), and the biased running variance

  // These return the members of the family as published.
  static ChannelNormOptions bn();
  static ChannelNormOptions rbn();
  static ChannelNormOptions qmbn();
  static ChannelNormOptions mabn();
  static ChannelNormOptions mabn_released();  // its form is `paper`, so M = 1 and padding get no special treatment
  static ChannelNormOptions pn_star();
  static ChannelNormOptions un();
  static ChannelNormOptions un_released();
};

}  // namespace foldgrad
