// A second family of models goes through the whole machinery of runs, files, folding and checks by its row alone.
#include "tests/train/runs/toy_family.h"

#include <omp.h>

#include "tests/train/tiny_run.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/reports/report.h"
#include "train/runs/training_run.h"

namespace foldgrad::testing {
namespace {

BlockConfig config_of(const nlohmann::json& json) {
  BlockConfig config;
  config.width = json.at("model").at("width"), config.normalizer = json.at("norm").at("name");
  config.normalizer_options = json.at("norm").at("options").get<std::map<std::string, std::string>>();
  config.normalizer_at = json.at("norm").at("at").get<std::map<std::string, std::string>>();
  return config;
}

Family toy_family() {
  return {.name = "toy",
          .config_json =
              [](const Model& model) {
                const BlockConfig& c = dynamic_cast<const ToyModel&>(model).config();
                return nlohmann::ordered_json{
                    {"model", {{"width", c.width}}},
                    {"norm", {{"name", c.normalizer}, {"options", c.normalizer_options}, {"at", c.normalizer_at}}}};
              },
          .make_model = [](const nlohmann::json& json, DType dtype, Device) -> std::unique_ptr<Model> {
            return std::make_unique<ToyModel>(config_of(json), std::nullopt, dtype);
          },
          .expected_parameters = [](const nlohmann::json& json) -> std::vector<std::pair<std::string, Shape>> {
            return {{"in.weight", {config_of(json).width, 2}}};
          },
          .checks = [](Model&, Model&, const NamedTensors&) { return std::vector<CheckResult>(); },
          .read_inputs = [](const Model&, const std::string&) { return NamedTensors(); },
          .results = [](Model&, const NamedTensors&, const ForwardPass&) { return std::map<std::string, RunResult>(); },
          .write_onnx = [](Model&, const std::string&) { return std::vector<std::string>(); },
          .smallest_model = [](const ExperimentConfig& c) -> std::unique_ptr<Model> {
            return std::make_unique<ToyModel>(c.model, std::nullopt);
          },
          .make_task = [](const ExperimentConfig& c, const std::string&, const std::string&, Device)
              -> std::unique_ptr<Task> { return std::make_unique<ToyTask>(c.model, std::uint64_t(c.train.seed)); }};
}

class ToyFamily : public TinyRun {
 protected:
  static void SetUpTestSuite() {
    omp_set_num_threads(1);  // a process with OpenMP's threads cannot be forked, as the test of the kill does
    register_family(toy_family());
  }
  int train(const std::string& out, const std::string& resume = "", const std::string& setting = "train.seed=1") {
    TrainOptions options;
    options.config = files_ / "config.toml";
    options.settings = {"model.family=toy", "train.steps=40", "validate.every=10", "output.save_every=5",
                        "output.keep=20",   "train.lr=0.05",  "norm.un.warmup=10", setting};
    options.out = files_ / out;
    options.resume = resume;
    return train_experiment(options);
  }
};

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
  EXPECT_EXIT(train("run", "", "output.save_every=1"), ::testing::KilledBySignal(SIGKILL), "");
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
