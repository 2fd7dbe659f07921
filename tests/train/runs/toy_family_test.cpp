// A second family of models goes through the whole machinery of runs, files, folding and checks by its row alone.
#include "tests/train/runs/toy_family.h"

#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/reports/report.h"

namespace foldgrad::testing {
namespace {

TEST_F(ToyFamily, IsTrainedValidatedAndReported) {
  ASSERT_EQ(train("run"), 0);
  const auto validations = events("run", "validate");
  ASSERT_EQ(validations.size(), 4u);
  EXPECT_LT(validations[3].at("loss"), 0.5 * validations[0].at("loss").get<double>());
  EXPECT_GT(events("run", "train").back().at("points_per_second"), 0);
  EXPECT_EQ(bytes("run/samples/step-00000040.txt"), "a point\n");
  const RunSummary summary = summary_of(read_run_log(files_ / "run"));
  ASSERT_TRUE(summary.best.has_value());
  EXPECT_EQ(summary.best->step, 40);
  EXPECT_EQ(summary.best->at("closeness"), validations[3].at("closeness"));
  EXPECT_TRUE(contains(comparison_table({summary}), "closeness"));
  EXPECT_TRUE(contains(report_html({read_run_log(files_ / "run")}), "closeness"));
}

TEST_F(ToyFamily, IsKilledAndResumedBitForBit) {
  ASSERT_EQ(train("whole"), 0);
  setenv("TOY_KILLED_AT", "23", 1);
  EXPECT_EXIT(train("killed"), ::testing::KilledBySignal(SIGKILL), "");
  unsetenv("TOY_KILLED_AT");
  ASSERT_FALSE(exists("killed/checkpoints/step-00000025"));
  ASSERT_EQ(train("killed", "latest"), 0);
  expect_same_numbers("killed", "whole", "step-00000040");
}

TEST_F(ToyFamily, HasNoBestCheckpointBeforeItIsValidated) {
  setenv("TOY_KILLED_AT", "3", 1);
  EXPECT_EXIT(train("run", "", {"output.save_every=1"}), ::testing::KilledBySignal(SIGKILL), "");
  unsetenv("TOY_KILLED_AT");
  EXPECT_TRUE(exists("run/checkpoints/LATEST"));
  EXPECT_FALSE(exists("run/checkpoints/BEST"));
}

TEST_F(ToyFamily, IsLoadedFoldedCertifiedAndVerified) {
  ASSERT_EQ(train("run"), 0);
  const std::unique_ptr<Model> model = load_model(files_ / "run");
  const FoldedModel folded = fold(*model);
  EXPECT_EQ(folded.reports.at(0).outcome, SiteReport::Outcome::folded);
  EXPECT_EQ(dynamic_cast<ToyModel&>(*folded.model).config().normalizer, "none");
  const Probe probe = random_probe(*model);
  EXPECT_LE(certificate(*model, folded, {}, probe).at("difference").at("f64").at("relative"), 1e-13);
  const std::vector<CheckResult> checks = check_model(
      *model, [](Model& m) { return fold(m); }, probe, family_of(*model).checks);
  EXPECT_GE(checks.size(), 6u);
  for (const CheckResult& check : checks)
    EXPECT_NE(check.outcome, CheckResult::Outcome::failed) << check.name << ": " << check.measured;
  write_model_directory(files_ / "folded", *folded.model);
  EXPECT_EQ(inference_logits(*load_model(files_ / "folded"), probe.inputs, DType::f32).values<double>(),
            inference_logits(*folded.model, probe.inputs, DType::f32).values<double>());
}

TEST_F(ToyFamily, FamiliesHaveNamesOfTheirOwn) {
  EXPECT_EQ(message_of([] { register_family(toy_family()); }), "register_family: there is a \"toy\" already");
  EXPECT_EQ(message_of([] { family("tyo"); }),
            "there is no model.family \"tyo\"; did you mean \"toy\"? There are: transformer, vit, cct, toy");
}

}  // namespace
}  // namespace foldgrad::testing
