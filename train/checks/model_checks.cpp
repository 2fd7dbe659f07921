#include "train/checks/model_checks.h"

#include "engine/dispatch.h"
#include "models/fold/difference.h"
#include "train/checks/finite.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

// Checks the parameters and the normalizers' states.
CheckResult check_finite(const Model& model) {
  const std::vector<std::string> bad = non_finite_tensors(model);
  return check_that(
      "all numbers are finite", bad.empty(),
      bad.empty() ? fmt::format("{} parameters, {} normalizer buffers", model.parameter_count(), model.state().size())
                  : bad[0]);
}

}  // namespace

Probe make_probe(NamedTensors inputs, std::string description) {
  std::string bytes;
  for (const auto& [name, tensor] : inputs) {
    bytes += fmt::format("{} {} {}\n", name, foldgrad::name(tensor.dtype()), tensor.shape());
    bytes.append(static_cast<const char*>(tensor.raw()), std::size_t(tensor.bytes()));
  }
  return {std::move(inputs), std::move(description), sha256(bytes)};
}

Probe random_probe(const Model& model, std::uint64_t seed) {
  NamedTensors inputs = to(model.random_inputs(seed), Device::cpu);
  const std::int64_t count = examples_in(inputs);
  return make_probe(std::move(inputs), fmt::format("{} random inputs, seed {}", count, seed));
}

CheckResult check_same_logits(std::string name, const Tensor& got, const Tensor& want, double bound) {
  const double relative = difference(got, want).relative;
  return check_that(std::move(name), relative <= bound,  // fails for NaN
                    fmt::format("relative difference {:.2g}, tolerance {:.0e}", relative, bound));
}

CheckResult check_others(const char* example, const LogitsOf& logits_of, const NamedTensors& inputs) {
  const std::string name = fmt::format("results do not depend on other {}s in the batch", example);
  const std::int64_t examples = examples_in(inputs);
  if (examples < 2) return check_skipped(name, fmt::format("there is only one {}", example));
  const Tensor together = logits_of(inputs), apart = together.clone();
  std::int64_t rows = 0;
  for (std::int64_t e = 0; e < std::min<std::int64_t>(examples, 4); ++e) {
    const Tensor alone = logits_of(part_of(inputs, e, e + 1));
    const std::int64_t next = rows + alone.shape()[0];
    apart.slice(rows, next).copy_from(alone);
    rows = next;
  }
  return check_same_logits(name, apart.slice(0, rows), together.slice(0, rows), kSameInF64);
}

std::vector<CheckResult> check_model(Model& model, const Fold& fold, const Probe& probe, const FamilyChecks& family) {
  std::vector<CheckResult> results;
  const std::unique_ptr<Model> exact = model.copy(DType::f64, model.device());
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
  results.push_back(check_replays(outlier_tests(*exact, "layer_any")));
  results.push_back(check_outliers(outlier_tests(*exact, "channel")));
  return results;
}

}  // namespace foldgrad
