// A second family of models goes through the whole machinery of runs, files, folding and checks by its row alone.
#include "tests/train/runs/toy_family.h"

#include "tests/train/runs/folded_run.h"
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

TEST_F(ToyFamily, HasNoBestCheckpointBeforeItIsValidated) {
  setenv("TOY_KILLED_AT", "3", 1);
  EXPECT_EXIT(train("run", "", {"output.save_every=1"}), ::testing::KilledBySignal(SIGKILL), "");
  unsetenv("TOY_KILLED_AT");
  EXPECT_TRUE(exists("run/checkpoints/LATEST"));
  EXPECT_FALSE(exists("run/checkpoints/BEST"));
}

TEST_F(ToyFamily, IsLoadedFoldedCertifiedAndVerified) {
  ASSERT_EQ(train("run"), 0);
  expect_folds(files_ / "run");
  EXPECT_EQ(dynamic_cast<ToyModel&>(*load_model(files_ / "run-folded")).config().normalizer, "none");
}

TEST_F(ToyFamily, FamiliesHaveNamesOfTheirOwn) {
  EXPECT_EQ(message_of([] { register_family(toy_family()); }), "register_family: there is a \"toy\" already");
  EXPECT_EQ(message_of([] { family("tyo"); }),
            "there is no model.family \"tyo\"; did you mean \"toy\"? There are: transformer, vit, cct, toy");
}

}  // namespace
}  // namespace foldgrad::testing
