// The statistics of one training pass through a normalizer, read from its record, and how near its dx is to the exact
// gradient of its forward pass, where psi stands for an average of past gradient statistics. Per channel, with the sums
// over the real positions by their means:
//
//   dx_i = (h_i - z_i psi) rstd,   exact_i = (h_i - z_i slope G) rstd
//   mean dx_i exact_i = (mean h^2 - (psi + slope G) G + psi slope G q rstd^2) rstd^2
#pragma once
#include <vector>

#include "ops/channel_norm/channel_record.h"

namespace foldgrad {

// Values on the host, each array of C or empty.
struct ChannelValues {
  std::vector<double> q, G;  // mean x^2 over the real positions; the gradient statistic, empty without a backward pass
  std::vector<double> var_hat, psi;
  std::vector<std::uint8_t> flags;
  // Only if the record has ChannelRecord::gradient. The exact dx of this pass has slope G for psi, where slope is
  // d var_hat / d q with the older entries of the window as constants: lambda / M of lemma 3.1 for a geometric mean,
  // lambda = GM / q; 1 without an average; 0 where q has no part in var_hat.
  std::vector<double> rstd, h_square, slope;  // h_square: mean h^2 over the real positions
  bool averaged = false;                      // true if var_hat is an average, unless flags say otherwise
};
ChannelValues channel_values(const ChannelRecord& record);

struct GradientAgreement {
  double cosine, norm_ratio;  // of dx and exact over positions and channels, |dx| / |exact|; NaN without a length
  // Share of channels with lambda = var_hat / q < 1 [Lemma 3.1]; NaN where var_hat is no average. Channels that
  // are skipped, held or constant do not count.
  double lambda_below_1;
};

// Compares the gradients of values with a slope.
GradientAgreement gradient_agreement(const ChannelValues& values);

}  // namespace foldgrad
