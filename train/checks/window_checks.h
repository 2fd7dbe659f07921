// Checks of windows of statistics, as Unified Normalization keeps them, and of the outlier test that reads them.
#pragma once
#include <memory>

#include "models/model.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// Invariants of a window and the running variance, whatever the data were. run_var is alpha run_var +
// (1 - alpha) var_hat of the last iteration, so that it is at least (1 - alpha) var_hat, and var_hat is a mean of the
// window or its newest entry: never below the least entry. Where no iteration was skipped it is known which, and the
// bound is sharper. (A skipped iteration has put at most alpha^-1 run_var into the window.) There is no bound
// from above: one batch far away raises run_var for a hundred iterations. Entries below 0 fail too. The measured text
// has the greatest share of skipped iterations. Skipped where no site has a window that is full.
CheckResult check_windows(const std::vector<Normalizer*>& sites);

using OwnedNormalizers = std::vector<std::unique_ptr<Normalizer>>;

// Copies, in f64, of the sites whose outlier test is that of Eq. 19 and whose window is full: `un` in the paper's form.
// Outliers are filtered from the first iteration on, whether or not the model does so. Other options are the site's but
// for the granularity, where one is given.
OwnedNormalizers outlier_tests(Model& model, const std::string& granularity = "");

// Both run the operation itself on `sites`, one iteration after the other, and so advance their state.
//
// A statistic that repeats the one it replaces is no outlier: by Eq. 18 the test cannot fire. Not true of a threshold
// that is pooled over the channels.
CheckResult check_replays(const OwnedNormalizers& sites);
// Statistics drawn from a thousandth to a thousand times what they replace, with the granularity `channel`: those are
// outliers that Eq. 19 says, and for each of them Lemma 3.1 holds as it is proved: with u = (a_{t-M} / a_t)^(1/M), f
// the mean of 1, u, ..., u^(M-1), and lambda = GM(A_t) / a_t, it is lambda < f < 1 upwards and lambda > f > 1
// downwards.
CheckResult check_outliers(const OwnedNormalizers& sites, std::uint64_t seed = 1);

}  // namespace foldgrad
