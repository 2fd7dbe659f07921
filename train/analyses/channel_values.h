// The statistics of one training pass through a normalizer, read from its record. They show how well dx, which uses
// averaged gradient statistics psi, agrees with the exact gradient of the forward pass. In each channel, with means
// over the real positions instead of sums, the following holds:
//
//   dx_i = (h_i - z_i psi) rstd,   exact_i = (h_i - z_i slope G) rstd
//   mean dx_i exact_i = (mean h^2 - (psi + slope G) G + psi slope G q rstd^2) rstd^2
#pragma once
#include <vector>

#include "ops/channel_norm/channel_record.h"

namespace foldgrad {

// Values on the host. Each array has C elements, or is empty.
struct ChannelValues {
  std::vector<double> q, G;  // mean of x^2 over the real positions; gradient statistic, empty without a backward pass
  std::vector<double> var_hat, psi;
  std::vector<std::uint8_t> flags;
  // These arrays are empty unless the record has ChannelRecord::gradient. The exact dx of this pass has slope * G in
  // place of psi, where slope is d var_hat / d q with the older entries of the window held constant: lambda / M [Lemma
  // 3.1] for a geometric mean, with lambda = GM / q; 1 without an average; 0 where var_hat does not depend on q.
  std::vector<double> rstd, h_square, slope;  // h_square is the mean of h^2 over the real positions
  bool averaged = false;                      // true if var_hat is an average in every channel whose flags are 0
};
ChannelValues channel_values(const ChannelRecord& record);

struct GradientAgreement {
  double cosine, norm_ratio;  // of dx and the exact gradient; NaN if the norm of one is 0
  // The fraction of channels with lambda = var_hat / q < 1 [Lemma 3.1], among channels that are not skipped, held or
  // constant. NaN if var_hat is not an average.
  double lambda_below_1;
};

// Compares dx with the exact gradient. `values` must have a slope.
GradientAgreement gradient_agreement(const ChannelValues& values);

}  // namespace foldgrad
