// How near dx of channel_norm is to the exact gradient of its forward pass, where psi stands for an average of past
// gradient statistics. Per channel, with the sums over the real positions by their means:
//
//   dx_i = (h_i - z_i psi) rstd,   exact_i = (h_i - z_i slope G) rstd
//   mean dx_i exact_i = (mean h^2 - (psi + slope G) G + psi slope G q rstd^2) rstd^2
#pragma once
#include "train/analyses/channel_values.h"

namespace foldgrad {

struct GradientAgreement {
  double cosine, norm_ratio;  // of dx and exact over positions and channels, |dx| / |exact|; NaN without a length
  // Share of channels with lambda = var_hat / q < 1 [Lemma 3.1]; NaN where var_hat is no average. Channels that
  // are skipped, held or constant do not count.
  double lambda_below_1;
};

// Compares the gradients of values with a slope.
GradientAgreement gradient_agreement(const ChannelValues& values);

}  // namespace foldgrad
