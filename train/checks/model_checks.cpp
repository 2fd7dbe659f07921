#include "train/checks/model_checks.h"

#include "train/checks/forward_checks.h"
#include "train/checks/gradient_check.h"
#include "train/checks/window_checks.h"

namespace foldgrad {
namespace {

std::unique_ptr<Transformer> in_f64(Transformer& model) {
  auto exact = std::make_unique<Transformer>(model.config(), /*seed=*/0, DType::f64);
  exact->copy_from(model);
  return exact;
}

std::vector<Normalizer*> all_of(const std::vector<std::unique_ptr<Normalizer>>& owned) {
  std::vector<Normalizer*> all;
  for (const auto& norm : owned) all.push_back(norm.get());
  return all;
}

}  // namespace

std::vector<CheckResult> check_model(Transformer& model, const Fold& fold, const Probe& probe) {
  std::vector<CheckResult> results;
  const std::unique_ptr<Transformer> exact = in_f64(model);
  results.push_back(check_finite(*exact));
  if (results[0].outcome == CheckResult::Outcome::failed) return results;

  const TransformerConfig& config = model.config();
  const FoldedTransformer exact_folded = fold(*exact), folded = fold(model);
  const auto logits = [&](Transformer& m, DType dtype) { return inference_logits(m, probe.batch, dtype); };
  results.push_back(check_same_logits("folded = unfolded, f64", logits(*exact_folded.model, DType::f64),
                                      logits(*exact, DType::f64), 1e-11));
  results.push_back(
      check_same_logits("folded = unfolded, f32", logits(*folded.model, DType::f32), logits(model, DType::f32), 1e-5));
  results.push_back(check_translations(*exact, *exact_folded.model, probe.batch));
  const LogitsOf logits_of = [&](const TranslationBatch& batch) { return inference_logits(*exact, batch, DType::f64); };
  results.push_back(check_padding(logits_of, probe.batch, config.pad, config.max_positions));
  results.push_back(check_other_sentences(logits_of, probe.batch, config.pad));
  results.push_back(check_gradients(exact->parameters(), [&](Tape& tape) {
    return exact->loss(probe.batch, {.tape = tape, .dtype = DType::f64}, 0.1);
  }));
  results.push_back(check_windows(model.normalizers()));
  results.push_back(check_replays(all_of(outlier_tests(*exact))));
  results.push_back(check_outliers(all_of(outlier_tests(*exact, "channel"))));
  return results;
}

}  // namespace foldgrad
