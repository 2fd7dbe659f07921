// Tests runs of image models other than the vision Transformer: the effects of keys, and diagnostics in the log.
#include "engine/contains.h"
#include "models/t2t/t2t.h"
#include "tests/train/runs/family_run.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad::testing {
namespace {

template <const std::string& kConfig>
struct RunOf : ClassificationRun {
  RunOf() : ClassificationRun(kConfig) {}
};
using CctRun = RunOf<kCctConfig>;
using T2tRun = RunOf<kT2tConfig>;
using SwinRun = RunOf<kSwinConfig>;
using ConvNextRun = RunOf<kConvNextConfig>;
using NfNetRun = RunOf<kNfNetConfig>;

// Tests only the keys of the model; classification_test.cpp tests the keys of data and training.
TEST_F(CctRun, EveryKeyChangesWhatItSaysAndNothingBefore) {
  expect_effects(kEffectsOfBlocks);
  expect_effects(kEffectsOfImageModels);
  expect_effects({{"", "model.convs=1", "shapes"},
                  {"", "model.stem=cct", "shapes"},
                  {"", "model.kernel=5", "shapes"},
                  {"", "model.pooling=mean", "shapes"},
                  {"", "model.block=cct", "loss 1"}});
}

TEST_F(T2tRun, EveryKeyChangesWhatItSaysAndNothingBefore) {
  expect_effects(kEffectsOfBlocks);
  expect_effects({{"", "model.kernels=[5,3,3]", "shapes"},
                  {"", "model.strides=[4,2,2]", "shapes"},
                  {"", "model.paddings=[2,1,0]", "shapes"},
                  {"", "model.token_width=16", "shapes"},
                  {"", "model.token_attention=softmax", "shapes"},
                  {"", "model.pooling=mean", "shapes"},
                  {"", "model.token_dropout=0.4", "loss 1"},
                  {"model.layers=2", "model.drop_path=0.5", "loss 1"}});
}

// Only the random features of the two token modules, and the positions, must keep their initial values.
TEST_F(T2tRun, DoesNotTrainFixedParametersAndLogsLengthsOfKeys) {
  ASSERT_EQ(train("run"), 0);
  const auto diagnostics = events("run", "train").at(0).at("diagnostics");
  EXPECT_GT(diagnostics.at("tokens_to_token.attention2.mean_key_length"), 0);
  const std::unique_ptr<Model> model = load_model(files_ / "run");
  const std::vector<Parameter*> fixed = model->fixed_parameters();
  EXPECT_EQ(fixed.size(), 3u);
  const NamedTensors before = T2t(dynamic_cast<const T2t&>(*model).config(), /*seed=*/1).values();
  for (Parameter* p : model->parameters())
    EXPECT_EQ(identical(p->value, before.at(p->name)), contains(fixed, p)) << p->name;
}

TEST_F(SwinRun, EveryKeyChangesWhatItSaysAndNothingBefore) {
  expect_effects({{"", "model.patch=4", "shapes"},
                  {"", "model.window=4", "shapes"},
                  {"", "model.depths=[1,1]", "shapes"},
                  {"", "model.width=16", "shapes"},
                  {"", "model.ffn_width=16", "shapes"},
                  {"", "model.heads=1", "shapes"},
                  {"", "model.qkv_bias=false", "shapes"},
                  {"", "model.activation=relu", "loss 1"},
                  {"", "model.fc_norm=true", "loss 1"},
                  {"", "model.dropout=0.4", "loss 1"},
                  {"", "model.attention_dropout=0.4", "loss 1"},
                  {"", "model.activation_dropout=0.4", "loss 1"},
                  {"", "model.drop_path=0.5", "loss 1"},
                  {"", "norm.name=ln", "loss 1"}});
}

TEST_F(ConvNextRun, EveryKeyOfItsSizesChangesTheShapes) {
  expect_effects({{"", "model.channels=[4,12]", "shapes"},
                  {"", "model.depths=[1,2]", "shapes"},
                  {"", "model.patch=4", "shapes"},
                  {"", "norm.name=ln", "loss 1"}});
}

TEST_F(NfNetRun, EveryKeyChangesWhatItSaysAndNothingBefore) {
  expect_effects({{"", "model.channels=[32]", "shapes"},
                  {"", "model.depths=[1]", "shapes"},
                  {"", "model.group_size=4", "shapes"},
                  {"", "model.standardization=none", "shapes"},
                  {"", "model.stem_stride=1", "loss 1"},
                  {"", "model.padding=port", "loss 1"},
                  {"", "model.standardization=unbiased", "loss 1"},
                  {"", "model.activation=gelu", "loss 1"},
                  {"", "model.gate_activation=gained", "gradient 1"},
                  {"", "model.initialization=port", "loss 1"},
                  {"", "model.dropout=0.4", "loss 1"},
                  {"", "model.drop_path=0.9", "gradient 1"},
                  {"", "norm.name=ln", "loss 1"}});
}

}  // namespace
}  // namespace foldgrad::testing
