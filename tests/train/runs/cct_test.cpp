// Runs that train a Compact Convolutional Transformer on drawn shapes.
#include "models/fold/model.h"
#include "tests/train/runs/classification_run.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {
namespace {

class CctRun : public ClassificationRun {
 protected:
  CctRun() : ClassificationRun(kCctConfig) {}
};

TEST_F(CctRun, IsFoldedCertifiedVerifiedAndLoadedAgain) {
  for (const char* block : {"pre", "cct"}) {
    SCOPED_TRACE(block);
    const std::string out = std::string("run-") + block;
    ASSERT_EQ(train(out, std::string("model.block=") + block), 0);
    const std::unique_ptr<Model> model = load_model(files_ / out);
    const FoldOptions options{.rescale_stream = true};
    const FoldedModel folded = fold(*model, options);
    for (const SiteReport& report : folded.reports)
      EXPECT_EQ(report.outcome, SiteReport::Outcome::folded) << report.site;
    const Probe probe = random_probe(*model);
    EXPECT_LE(certificate(*model, folded, options, probe).at("difference").at("f64").at("relative"), 1e-13);
    const std::vector<CheckResult> checks = check_model(
        *model, [&](Model& m) { return fold(m, options); }, probe, family_of(*model).checks);
    EXPECT_GE(checks.size(), 6u);
    for (const CheckResult& check : checks)
      EXPECT_NE(check.outcome, CheckResult::Outcome::failed) << check.name << ": " << check.measured;
    write_model_directory(files_ / (out + "-folded"), *folded.model);
    EXPECT_EQ(inference_logits(*load_model(files_ / (out + "-folded")), probe.inputs, DType::f32).values<double>(),
              inference_logits(*folded.model, probe.inputs, DType::f32).values<double>());
  }
}

// Each key of its model that a vision Transformer has not, or has otherwise, and what it changes first.
TEST_F(CctRun, EveryKeyChangesWhatItSaysAndNothingBefore) {
  struct Row {
    const char *base, *change, *differs;
  };
  std::map<std::string, RunNumbers> bases;
  for (const auto& [base, change, differs] : {Row{"", "model.convs=1", "shapes"},
                                              {"", "model.stem=cct", "shapes"},
                                              {"", "model.kernel=5", "shapes"},
                                              {"", "model.width=16", "shapes"},
                                              {"", "model.ffn_width=16", "shapes"},
                                              {"", "model.layers=2", "shapes"},
                                              {"", "model.pooling=mean", "shapes"},
                                              {"model.initialization=pytorch", "model.heads=1", "loss 1"},
                                              {"", "model.block=cct", "loss 1"},
                                              {"", "model.activation=relu", "loss 1"},
                                              {"", "model.dropout=0.4", "loss 1"},
                                              {"", "model.attention_dropout=0.4", "loss 1"},
                                              {"", "model.activation_dropout=0.4", "loss 1"},
                                              {"model.layers=2", "model.drop_path=0.5", "loss 1"},
                                              {"", "model.weight_standardization=true", "shapes"},
                                              {"", "model.initialization=pytorch", "loss 1"},
                                              {"model.initialization=tfixup", "model.tfixup_scope=all", "loss 1"},
                                              {"", "model.positions=sinusoidal", "loss 1"},
                                              {"", "norm.name=ln", "loss 1"}}) {
    const std::string with = std::string(base) + ";" + change;
    if (!bases.count(base)) bases[base] = numbers(base);
    EXPECT_EQ(differences(bases[base], numbers(with)).at(0), differs) << with;
  }
}

TEST_F(CctRun, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal("model.kernel=4"), "cct: kernel must be 3, 5 or 7, got 4");
  EXPECT_EQ(refusal("norm.name=deepnorm"),
            "cct: normalizer must be one for pre-norm, got deepnorm, which scales the sum of post-norm");
  EXPECT_EQ(refusal("model.patch=4"),
            "--set model.patch: model.patch is a key of model.family = \"vit\", not of \"cct\"");
}

}  // namespace
}  // namespace foldgrad::testing
