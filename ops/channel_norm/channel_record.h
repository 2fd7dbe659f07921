// The record of one training pass through a normalizer, per channel, for analyses (train/analyses/channel_values.h).
// Tensors stay on x's device.
#pragma once
#include "ops/channel_norm/channel_norm_options.h"
#include "ops/channel_sums/channel_sums.h"

namespace foldgrad {

// Members may be undefined; channel_norm fills all of them once its backward pass has run.
struct ChannelRecord {
  ChannelMoments moments;      // of x over the real positions
  Tensor gradient_sum;         // f64 [C], of the backward pass: sum of dy (y - offset), or of dy (x - mean)
  Tensor gain;                 // [C], the latter's factor is gain rstd
  Tensor rstd, flags;          // [C], of channel_norm, as its ChannelContext has them
  Tensor x_factor;             // [C], psi rstd^2
  Tensor iteration;            // f64 []
  ChannelMoments gradient;     // of dy over the real positions; of mean squares in the form of the paper
  ChannelNormOptions options;  // of channel_norm
};

}  // namespace foldgrad
