// Options of the normalizers that keep statistics per channel.
#pragma once
#include "models/normalizers/kinds.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad {

// True if the normalizer computes as the authors' released code does. Configurations call this mode "reference".
bool is_released(const NormalizerSite& site);

using Published = ChannelNormOptions (*)();
// Returns the options of the paper or, if is_released(), of the released code. Options set at the site take precedence.
ChannelNormOptions channel_options(const NormalizerSite& site, Published paper, Published code);

// Return options that several per-channel normalizers share, and all options of `un`.
NormalizerOption mode_option();
NormalizerOption window_option(const char* default_value);
NormalizerOption warmup_option(const char* default_value);
std::vector<NormalizerOption> un_options();

// Returns the number of iterations before channel_norm_math::active() is true, or 0 if no averages are used.
NormalizerWarmup before_averages(const NormalizerOptions& options);

}  // namespace foldgrad
