// The options of normalizers with statistics per channel.
#pragma once
#include "models/normalizers/kinds.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad {

// Returns true if the normalizer computes like the authors' released code. Configurations call this mode "reference".
bool is_released(const NormalizerSite& site);

using Published = ChannelNormOptions (*)();
// Returns the options of the paper, or of the released code, overridden by those of the site.
ChannelNormOptions channel_options(const NormalizerSite& site, Published paper, Published code);

// Return options that several of these normalizers share, and all options of `un`.
NormalizerOption mode_option();
NormalizerOption window_option(const char* default_value);
NormalizerOption warmup_option(const char* default_value);
std::vector<NormalizerOption> un_options();

// Returns the iterations before channel_norm_math::active() is true, or 0 if the options never average.
NormalizerWarmup before_averages(const NormalizerOptions& options);

}  // namespace foldgrad
