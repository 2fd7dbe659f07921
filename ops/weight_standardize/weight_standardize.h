// Weight standardization (Qiao et al.: "Micro-Batch Training with Batch-Channel Normalization and Weight
// Standardization", 2019), scaled as in normalizer-free networks (Brock et al.: "High-Performance Large-Scale Image
// Recognition Without Normalization", 2021): the weights of each output unit o get mean 0 and norm |g_o|.
//
//   [WS-1]  mu_o    = (1/N) sum_n W_on                S_o = sum_n (W_on - mu_o)^2         N: the fan-in
//   [WS-2]  s_o     = sqrt(max(c S_o, minimum))       w_on = (W_on - mu_o) / s_o          c: 1, or unbiased N / (N - 1)
//   [WS-3]  What_on = g_o w_on
//
//   backward, with k_on = dWhat_on g_o, <.>_o the mean over n, and c_o = c, or 0 if `minimum` is the larger:
//   [WS-4]  dW_on   = (k_on - <k>_o - c_o w_on sum_j k_oj w_oj) / s_o
//   [WS-5]  dg_o    = sum_n dWhat_on w_on
//
//   W, What: [O, ...] seen as [O, N]; g: [O]. Saved: W, g, mu [O], 1 / s [O], c_o [O]. c S is N times the biased
//   variance, as in DeepMind's code, or N times the unbiased variance, as in many PyTorch ports. At inference, What
//   replaces W. Derivation: docs/derivations/weight_standardize.md.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

struct WeightStandardizeOptions {
  double minimum = 1e-4;  // lower bound for N times the variance
  bool unbiased = false;
};

// Throws std::invalid_argument unless W has an axis of units and at least one more axis, the fan-in is at least 1 (2 if
// unbiased), g is [O] with W's dtype and device, and minimum is positive.
Var weight_standardize(const Var& W, const Var& g, const WeightStandardizeOptions& options = {});

}  // namespace foldgrad
