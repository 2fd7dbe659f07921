// Properties that hold for every model, checked on this one: what `foldgrad verify` runs.
#pragma once
#include <functional>
#include <vector>

#include "models/fold/model.h"
#include "train/checks/check_result.h"
#include "train/checks/probe.h"

namespace foldgrad {

// Relative to the greatest logit: what roundings of sums in another order leave in f64, some 1e-15 each.
constexpr double kSameInF64 = 1e-11;

// The greatest difference is at most `bound` times the greatest logit.
CheckResult check_same_logits(std::string name, const Tensor& got, const Tensor& want, double bound);

using Fold = std::function<FoldedModel(Model&)>;
// Additional checks of a family, given a model and the one folded from it, f64 on one device; inputs on the CPU.
using FamilyChecks = std::function<std::vector<CheckResult>(Model& model, Model& folded, const NamedTensors& inputs)>;

// On the inputs of `probe`, on the model's device, in f64 but where f32 is named:
//   the model's numbers are finite; folded logits are the logits, in f64 and f32; what the family checks; gradients of
//   the loss at inference, where statistics are fixed, agree with central differences; of Unified Normalization,
//   running variances bear out the windows, replays of these are no outliers, and drawn outliers are those that the
//   paper's Eq. 19 and Lemma 3.1 say.
// Checks that do not apply to the model are skipped, with the reason. Each check is a function of train/checks/.
// `model` is f32; `fold` is what folds it, and its copy in f64.
std::vector<CheckResult> check_model(Model& model, const Fold& fold, const Probe& probe, const FamilyChecks& family);

}  // namespace foldgrad
