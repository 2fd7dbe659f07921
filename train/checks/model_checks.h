// Checks of properties that hold for every model. `foldgrad verify` runs them on one model.
#pragma once
#include <functional>
#include <vector>

#include "models/fold/model.h"
#include "models/options/names.h"

namespace foldgrad {

// Inputs on which models are compared.
struct Probe {
  NamedTensors inputs;      // on the CPU, including the targets
  std::string description;  // for example, "8 random inputs, seed 1"
  std::string digest;       // SHA-256 of the names, shapes and values
};

Probe make_probe(NamedTensors inputs, std::string description);
// Returns a probe of Model::random_inputs().
Probe random_probe(const Model& model, std::uint64_t seed = 1);

// The outcome of checking one property of a model.
struct CheckResult {
  enum class Outcome { passed, failed, skipped };

  std::string name;  // for example, "folded = unfolded, f64"
  Outcome outcome;
  std::string measured;  // for example, "relative difference 3.1e-15, at most 1e-11"
};
constexpr auto names_of(CheckResult::Outcome) { return std::array{"passed", "FAILED", "skipped"}; }

inline CheckResult check_that(std::string name, bool holds, std::string measured) {
  return {std::move(name), holds ? CheckResult::Outcome::passed : CheckResult::Outcome::failed, std::move(measured)};
}
inline CheckResult check_skipped(std::string name, std::string reason) {
  return {std::move(name), CheckResult::Outcome::skipped, std::move(reason)};
}

// A bound relative to the largest logit. In f64, summing in another order changes results by about 1e-15 per rounding.
constexpr double kSameInF64 = 1e-11;

// Checks that the largest difference is at most `bound` times the largest logit.
CheckResult check_same_logits(std::string name, const Tensor& got, const Tensor& want, double bound);

// Returns the logits of a batch at inference, [rows, classes] in f64 on the host.
using LogitsOf = std::function<Tensor(const NamedTensors& inputs)>;
// Checks that the logits of the first four examples do not depend on the other examples of their batch. `example` names
// an example, such as "image". The check is skipped if the batch has only one example.
CheckResult check_others(const char* example, const LogitsOf& logits_of, const NamedTensors& inputs);

using Fold = std::function<FoldedModel(Model&)>;
// Additional checks of a family. `model` and `folded`, the model folded from it, are f64 on one device; inputs are on
// the CPU.
using FamilyChecks = std::function<std::vector<CheckResult>(Model& model, Model& folded, const NamedTensors& inputs)>;

// Checks these properties on the inputs of `probe`, on the model's device, in f64 unless stated otherwise:
//   the model's numbers are finite; the folded model gives the same logits, in f64 and f32; the family's own checks;
//   gradients of the loss at inference, where statistics are fixed, agree with central differences; with Unified
//   Normalization, running variances agree with the windows, replayed windows are not outliers, and drawn statistics
//   are outliers exactly where the paper's Eq. 19 and Lemma 3.1 say so.
// Checks that do not apply to the model are skipped, and their results give the reason. Each check is a function in
// train/checks/. `model` must be f32; `fold` is called with it and with an f64 copy.
std::vector<CheckResult> check_model(Model& model, const Fold& fold, const Probe& probe, const FamilyChecks& family);

// Records a scalar loss on the tape. Calls with equal parameters must record equal losses.
using LossOf = std::function<Var(Tape&)>;

// Draws one parameter of each kind ("decoder.layers.*.fc1.weight"), f64 on any device, and compares its gradient with
// central differences in two directions: along one element, and along all elements at once. The second direction is
// half the gradient, so that tensors with many small elements count too, and half random signs, so that a missing part
// shows. Leaves the gradients in the parameters.
CheckResult check_gradients(const std::vector<Parameter*>& parameters, const LossOf& loss);

// Checks for Unified Normalization's windows of statistics, and for the outlier test that reads them:

// Checks invariants of a window and the running variance that hold for all data. run_var is alpha run_var + (1 - alpha)
// var_hat of the last iteration, hence at least (1 - alpha) var_hat; and var_hat, a mean of the window or its newest
// entry, is never below the smallest entry. If no iteration was skipped, var_hat is known and the bound is sharper. (A
// skipped iteration has put at most alpha^-1 run_var into the window.) There is no upper bound, since one distant batch
// raises run_var for a hundred iterations. Negative entries fail too. `measured` states the largest fraction of skipped
// iterations. The check is skipped if no site has a full window.
CheckResult check_windows(const std::vector<Normalizer*>& sites);

using OwnedNormalizers = std::vector<std::unique_ptr<Normalizer>>;

// Returns f64 copies of the sites whose window is full and whose outlier test is Eq. 19: `un` in the paper's form. The
// copies filter outliers from the first iteration, with the given granularity, and keep the site's other options.
OwnedNormalizers outlier_tests(Model& model, const std::string& granularity);

// Both checks run the operation itself on `sites`, iteration by iteration, and so advance the sites' state.
//
// Checks that a statistic is not an outlier of its channel if it equals the statistic that it replaces: by Eq. 18 the
// test cannot fire. This does not hold for the granularity `pooled`, which has one threshold for all channels.
CheckResult check_replays(const OwnedNormalizers& sites);
// Replaces statistics by drawn ones that are a thousandth to a thousand times as large, with the granularity `channel`.
// Checks that the outliers are exactly the outliers of Eq. 19, and that each of them satisfies Lemma 3.1 in the form
// that the paper's proof establishes: with u = (a_{t-M} / a_t)^(1/M), f the mean of 1, u, ..., u^(M-1), and lambda =
// GM(A_t) / a_t, lambda < f < 1 for a rise and lambda > f > 1 for a drop.
CheckResult check_outliers(const OwnedNormalizers& sites);

}  // namespace foldgrad
