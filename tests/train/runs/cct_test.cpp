// Runs that train a Compact Convolutional Transformer on drawn shapes.
#include "tests/train/runs/classification_run.h"
#include "tests/train/runs/folded_run.h"

namespace foldgrad::testing {
namespace {

class CctRun : public ClassificationRun {
 protected:
  CctRun() : ClassificationRun(kCctConfig) {}
};

TEST_F(CctRun, IsFoldedCertifiedVerifiedAndLoadedAgain) {
  for (const std::string block : {"pre", "cct"}) {
    SCOPED_TRACE(block);
    ASSERT_EQ(train("run-" + block, "model.block=" + block), 0);
    expect_folds(files_ / ("run-" + block), {.rescale_stream = true});
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
