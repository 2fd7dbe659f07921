// The term that regularized batch normalization adds to the loss of a layer: the distance of the statistics of the
// batch from the running ones, which count as constants.
//
//   [RBN-2]  L = lm sum_c (m_c - run_mean_c)^2 + lv sum_c |v_c - run_var_c|
//   [RBN-3]  dx_i = dL (2 lm (m - run_mean) + 2 lv sign(v - run_var) (x_i - m)) / n
//
//   x: [..., C]; L: []; m, v: mean and biased variance over the n rows. To be called after channel_norm has taken the
//   same x into the running estimates. Saved: x, m, v, and the running estimates as they are now. Published weights for
//   IWSLT14: lm = 0.1, lv = 0.01 where layers normalize their input, 60 and 0 where they normalize their sum. Source:
//   "Understanding the Failure of Batch Normalization for Transformers in NLP" (2022).
#pragma once
#include "ops/channel_norm/channel_norm.h"

namespace foldgrad {

// Returns L, 0 without any row. With a communicator m and v are those of the rows of all ranks: each has the same L,
// and dx of its own rows. Throws std::invalid_argument for a state without mean or one that does not fit x.
Var rbn_penalty(const Var& x, const ChannelNormState& state, double mean_weight, double variance_weight,
                Communicator* communicator = nullptr);

}  // namespace foldgrad
