#include "train/checks/model_checks.h"

#include "train/checks/forward_checks.h"
#include "train/checks/gradient_check.h"
#include "train/checks/window_checks.h"

namespace foldgrad {
namespace {

std::vector<Normalizer*> all_of(const std::vector<std::unique_ptr<Normalizer>>& owned) {
  std::vector<Normalizer*> all;
  for (const auto& norm : owned) all.push_back(norm.get());
  return all;
}

}  // namespace

std::vector<CheckResult> check_model(Model& model, const Fold& fold, const Probe& probe, const FamilyChecks& family) {
  std::vector<CheckResult> results;
  const std::unique_ptr<Model> exact = model.copy(DType::f64, Device::cpu);
  results.push_back(check_finite(*exact));
  if (results[0].outcome == CheckResult::Outcome::failed) return results;

  const FoldedModel exact_folded = fold(*exact), folded = fold(model);
  const auto logits = [&](Model& m, DType dtype) { return inference_logits(m, probe.inputs, dtype); };
  results.push_back(check_same_logits("folded = unfolded, f64", logits(*exact_folded.model, DType::f64),
                                      logits(*exact, DType::f64), kSameInF64));
  results.push_back(
      check_same_logits("folded = unfolded, f32", logits(*folded.model, DType::f32), logits(model, DType::f32), 1e-5));
  for (CheckResult& result : family(*exact, *exact_folded.model, probe.inputs)) results.push_back(std::move(result));
  results.push_back(check_gradients(exact->parameters(), [&](Tape& tape) {
    return exact->loss(probe.inputs, {.tape = tape, .dtype = DType::f64}, 0.1);
  }));
  results.push_back(check_windows(model.normalizers()));
  results.push_back(check_replays(all_of(outlier_tests(*exact))));
  results.push_back(check_outliers(all_of(outlier_tests(*exact, "channel"))));
  return results;
}

}  // namespace foldgrad
