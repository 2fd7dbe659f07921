// The memory of channel_norm: between iterations, and from a forward pass to its backward pass. Included by kernels.
#pragma once
#include <cstdint>

#include "engine/host_device.h"

namespace foldgrad {

// The buffers of ChannelNormState; null where the method has none.
template <class S>
struct ChannelBuffers {
  S *run_mean, *run_var, *psi_ema;  // [C]
  S *win_sq, *win_g;                // [M_f, C], [M_b, C]
  std::int64_t *iters, *skips;      // []
};

template <class S>
struct ChannelContext {
  // Skip: psi = G; also set where the released form has M = 1. Held: normalized by the running estimates. Constant: the
  // variance is clamped.
  enum Flag : std::uint8_t { kSkip = 1, kHeld = 2, kConstant = 4 };

  S *mean, *rstd, *r;    // [C]
  std::uint8_t* flags;   // [C]
  double* iteration;     // []
  std::int64_t counted;  // n

  FOLDGRAD_HD bool flag(std::int64_t c, Flag which) const { return flags[c] & which; }
};

}  // namespace foldgrad
