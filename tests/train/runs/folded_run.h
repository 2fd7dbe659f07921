// A check for the tests of every model family: the model of a run can be folded, and the folded model is correct.
#pragma once
#include <gtest/gtest.h>

#include "models/fold/model.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {

// Folds the model of a run. Expects that all its normalizers fold, that the folded model gives the same logits, that no
// check of the model fails, and that the folded model can be saved and loaded. Returns the names of the checks.
inline std::vector<std::string> expect_folds(const std::string& run, const FoldOptions& options = {}) {
  const std::unique_ptr<Model> model = load_model(run);
  const FoldedModel folded = fold(*model, options);
  for (const SiteReport& report : folded.reports) EXPECT_EQ(report.outcome, SiteReport::Outcome::folded) << report.site;
  const Probe probe = random_probe(*model);
  EXPECT_LE(certificate(*model, folded, options, probe).at("difference").at("f64").at("relative"), 1e-13);
  const std::vector<CheckResult> checks = check_model(
      *model, [&](Model& m) { return fold(m, options); }, probe, family_of(*model).task->checks);
  std::vector<std::string> names;
  for (const CheckResult& check : checks) {
    EXPECT_NE(check.outcome, CheckResult::Outcome::failed) << check.name << ": " << check.measured;
    names.push_back(check.name);
  }
  EXPECT_GE(names.size(), 6u);
  write_model_directory(run + "-folded", *folded.model);
  EXPECT_EQ(inference_logits(*load_model(run + "-folded"), probe.inputs, DType::f32).values<double>(),
            inference_logits(*folded.model, probe.inputs, DType::f32).values<double>());
  return names;
}

}  // namespace foldgrad::testing
