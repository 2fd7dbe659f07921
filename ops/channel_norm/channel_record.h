// A normalizer's per-channel record of one training pass, on x's device, for train/analyses/channel_values.h.
#pragma once
#include "ops/channel_norm/channel_norm_options.h"
#include "ops/channel_sums/channel_sums.h"

namespace foldgrad {

// A normalizer may leave members undefined. channel_norm sets all of them, `gradient` under the condition below; a
// record is complete after the backward pass.
struct ChannelRecord {
  ChannelMoments moments;      // moments of x over the positions that enter the statistics
  Tensor gradient_sum;         // f64 [C]: sum of dy * (y - offset), or of dy * (x - mean)
  Tensor gain;                 // [C]; gain * rstd * sum of dy * (x - mean) = sum of dy * (y - offset)
  Tensor rstd, flags;          // [C], from channel_norm's ChannelContext
  Tensor x_factor;             // [C], psi rstd^2
  Tensor iteration;            // f64 []
  ChannelMoments gradient;     // like `moments`, but of dy; only with form `paper` and statistic `mean_square`
  ChannelNormOptions options;  // the options of channel_norm
};

}  // namespace foldgrad
