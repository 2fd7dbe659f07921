// The term that regularized batch normalization adds to the loss for each layer: the distance between the statistics of
// the batch and the running statistics, which count as constants.
//
//   [RBN-2]  L = lm sum_c (m_c - run_mean_c)^2 + lv sum_c |v_c - run_var_c|
//   [RBN-3]  dx_i = dL (2 lm (m - run_mean) + 2 lv sign(v - run_var) (x_i - m)) / n
//
//   x: [..., C]; L: []; m, v: mean and biased variance over the n rows. Call this after channel_norm has added the same
//   x to the running estimates. Saved: x, m, v, and a copy of the running estimates. The published weights for IWSLT14
//   are lm = 0.1 and lv = 0.01 for pre-norm models, and lm = 60 and lv = 0 for post-norm models. Source: "Understanding
//   the Failure of Batch Normalization for Transformers in NLP" (2022).
#pragma once
#include "ops/channel_norm/channel_norm.h"

namespace foldgrad {

// Returns L, which is 0 if there are no rows. With a communicator, m and v cover the rows of all ranks: each rank
// computes the same L, and dx of its rows. Throws std::invalid_argument if the state has no mean or does not fit x.
Var rbn_penalty(const Var& x, const ChannelNormState& state, double mean_weight, double variance_weight,
                Communicator* communicator = nullptr);

}  // namespace foldgrad
