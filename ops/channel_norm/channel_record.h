// What one training pass through a normalizer computed per channel, kept for an analysis. Nothing is computed for it
// but the sums of watch_channels(); the tensors stay on x's device until channel_values() reads them.
#pragma once
#include <memory>
#include <vector>

#include "engine/tape.h"
#include "ops/channel_norm/channel_moments.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad {

// What is not there is undefined: of channel_norm all is, behind its backward pass.
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

// On the host, each of C values or empty.
struct ChannelValues {
  std::vector<double> q, G;  // mean x^2 over the real positions; the gradient statistic, empty without a backward pass
  std::vector<double> var_hat, psi;
  std::vector<std::uint8_t> flags;
  // Where the record has ChannelRecord::gradient: what the exact dx of this pass takes, whose psi is slope G, with
  // slope = d var_hat / d q, the older entries of the window being constants: lambda / M of lemma 3.1 for a geometric
  // mean, lambda = GM / q; 1 without an average; 0 where q has no part in var_hat.
  std::vector<double> rstd, h_square, slope;  // h_square: mean h^2 over the real positions
  bool averaged = false;                      // whether var_hat is an average, but where flags say otherwise
};
ChannelValues channel_values(const ChannelRecord& record);

// y itself. Where y = offset + h(x) per channel, the backward pass has sum dy (y - offset), which is n G whatever the
// gain is, and writes it into the record. Gradients pass unchanged, bit for bit.
// y: [..., C]; offset: [C], f64 for f64 and otherwise f32. Throws std::invalid_argument for an offset that does not
// fit.
Var watch_channels(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record);

}  // namespace foldgrad
