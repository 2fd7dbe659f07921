// Tests how a run is set up from its configuration or from a checkpoint, and the exit codes of exceptions.
#include "train/runs/setup.h"

#include <algorithm>

#include "engine/files/file.h"
#include "tests/models/images/kinds.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/program.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/commands/commands.h"
#include "train/runs/resume.h"
#include "train/system/device.h"

namespace foldgrad::testing {
namespace {

TEST(TrainingSetup, EveryUpdateRuleGetsItsOwnKeys) {
  TrainConfig t;
  t.beta1 = 0.5, t.beta2 = 0.75, t.eps = 1e-3, t.momentum = 0.25, t.nesterov = true;
  const auto expect_adam = [](const auto& rule) {
    EXPECT_EQ(rule.beta1, 0.5);
    EXPECT_EQ(rule.beta2, 0.75);
    EXPECT_EQ(rule.eps, 1e-3);
  };
  t.optimizer = UpdateRule::adam;
  expect_adam(std::get<Adam>(optimizer_rule(t)));
  t.optimizer = UpdateRule::adamw;
  expect_adam(std::get<AdamW>(optimizer_rule(t)));
  t.optimizer = UpdateRule::sgd;
  EXPECT_EQ(std::get<Sgd>(optimizer_rule(t)).momentum, 0.25);
  EXPECT_TRUE(std::get<Sgd>(optimizer_rule(t)).nesterov);
}

// 2 epochs of 7 batches are 14 batches, which are 5 updates of 3 batches. The last update reaches into the third epoch.
TEST(TrainingSetup, EpochsAreCountedInWholeUpdates) {
  TrainConfig t;
  t.steps = 9, t.warmup = 4, t.accumulate = 3;
  EXPECT_EQ(with_epochs_counted(t, 7), t);
  EXPECT_EQ(with_epochs_counted(t, 0), t);
  t.epochs = 2;
  EXPECT_EQ(with_epochs_counted(t, 7).steps, 5);
  EXPECT_EQ(with_epochs_counted(t, 7).warmup, 4);
  t.epochs = 3, t.warmup_epochs = 1;
  EXPECT_EQ(with_epochs_counted(t, 7).steps, 7);
  EXPECT_EQ(with_epochs_counted(t, 7).warmup, 3);
  t.accumulate = 1;
  EXPECT_EQ(with_epochs_counted(t, 390).steps, 1170);
  EXPECT_EQ(message<ConfigError>([&] { with_epochs_counted(t, 0); }),
            "train.epochs and train.warmup_epochs must be 0: the examples of this family have no epochs");
  t.schedule = ScheduleShape::cosine, t.warmup_epochs = 0, t.warmup = 20;
  EXPECT_EQ(with_epochs_counted(t, 7).steps, 21);
  t.warmup = 21;
  EXPECT_EQ(message<ConfigError>([&] { with_epochs_counted(t, 7); }),
            "train.epochs = 3, which is 21 updates with this data, must exceed the warm-up: with train.warmup = 21 "
            "and train.warmup_epochs = 0, the warm-up takes 21 updates");
}

std::vector<std::string> names(const ParameterGroup& group) {
  std::vector<std::string> all;
  for (const Parameter* p : group.parameters) all.push_back(p->name);
  std::ranges::sort(all);
  return all;
}

TEST(TrainingSetup, NoDecayLeavesOutBiasesGainsAndPositions) {
  TrainConfig t;
  t.weight_decay = 0.25;
  VitConfig config = tiny_vit("ln");
  config.layers = 1, config.weight_standardization = true;
  Vit model(config, 1);
  EXPECT_EQ(parameter_groups(model, t).size(), 1u);
  EXPECT_EQ(parameter_groups(model, t)[0].parameters, model.parameters());
  EXPECT_EQ(parameter_groups(model, t)[0].weight_decay, 0.25);
  t.no_decay = Undecayed::vectors;
  const std::vector<ParameterGroup> groups = parameter_groups(model, t);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].weight_decay, 0.25);
  EXPECT_EQ(groups[1].weight_decay, 0);
  EXPECT_EQ(names(groups[0]), (std::vector<std::string>{"blocks.0.attn.proj.weight", "blocks.0.attn.qkv.weight",
                                                        "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight",
                                                        "head.weight", "patch_embed.proj.weight"}));
  EXPECT_EQ(names(groups[1]),
            (std::vector<std::string>{"blocks.0.attn.proj.bias", "blocks.0.attn.proj.gain", "blocks.0.attn.qkv.gain",
                                      "blocks.0.mlp.fc1.bias", "blocks.0.mlp.fc1.gain", "blocks.0.mlp.fc2.bias",
                                      "blocks.0.mlp.fc2.gain", "blocks.0.norm1.bias", "blocks.0.norm1.weight",
                                      "blocks.0.norm2.bias", "blocks.0.norm2.weight", "cls_token", "head.bias",
                                      "norm.bias", "norm.weight", "patch_embed.proj.bias", "pos_embed"}));
}

// Sequence pooling uses a linear layer with one output. Its weight is a matrix, so it decays.
TEST(TrainingSetup, SequencePoolingDecays) {
  TrainConfig t;
  t.weight_decay = 0.25, t.no_decay = Undecayed::vectors;
  Cct model(tiny_cct(), 1);
  EXPECT_EQ(std::ranges::count(names(parameter_groups(model, t)[0]), "classifier.attention_pool.weight"), 1);
}

TEST(TrainingSetup, PatternsGiveParametersRatesOfTheirOwnOrNone) {
  TrainConfig t;
  t.weight_decay = 0.25, t.no_decay = Undecayed::vectors;
  VitConfig config = tiny_vit("ln");
  config.layers = 1;
  Vit model(config, 1);
  EXPECT_EQ(learning_rates(model, parameter_groups(model, t)), "");
  t.freeze = {"norm.*", "cls_token", "blocks.?.attn.*"};
  t.rates = {"*=0.25", "blocks.0.mlp.*=0", "head.*=1", "*.fc2.[w]*=0.5"};
  struct Learns {
    double rate, weight_decay;
    std::vector<std::string> parameters;
  };
  const std::vector<Learns> want{{0.25, 0.25, {"patch_embed.proj.weight"}},
                                 {0.25,
                                  0,
                                  {"blocks.0.norm1.bias", "blocks.0.norm1.weight", "blocks.0.norm2.bias",
                                   "blocks.0.norm2.weight", "patch_embed.proj.bias", "pos_embed"}},
                                 {0, 0.25, {"blocks.0.mlp.fc1.weight"}},
                                 {0, 0, {"blocks.0.mlp.fc1.bias", "blocks.0.mlp.fc2.bias"}},
                                 {0.5, 0.25, {"blocks.0.mlp.fc2.weight"}},
                                 {1, 0.25, {"head.weight"}},
                                 {1, 0, {"head.bias"}}};
  const std::vector<ParameterGroup> groups = parameter_groups(model, t);
  ASSERT_EQ(groups.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(groups[i].rate, want[i].rate) << i;
    EXPECT_EQ(groups[i].weight_decay, want[i].weight_decay) << i;
    EXPECT_EQ(names(groups[i]), want[i].parameters) << i;
  }
  // The factor is 1 for the head (5 x 8 + 5 parameters), 0.5 for fc2's weight (8 x 12), 0.25 for the patches (8 x 12 +
  // 8), the positions (5 x 8) and two normalizers (4 x 8), and 0 for fc1 (12 x 8 + 12) and fc2's bias (8).
  EXPECT_EQ(learning_rates(model, groups),
            "learning rates: 45 parameters x 1, 96 parameters x 0.5, 176 parameters x 0.25, 116 parameters x 0, 288 "
            "frozen");
  t.freeze = {}, t.rates = {"*=0.5"};
  EXPECT_EQ(learning_rates(model, parameter_groups(model, t)), "learning rates: 721 parameters x 0.5");
}

TEST(TrainingSetup, RefusesPatternsThatFitNothingAndFactorsThatAreNone) {
  Vit model(tiny_vit("ln"), 1);
  const auto refusal = [&](const std::vector<std::string>& rates, const std::vector<std::string>& freeze) {
    TrainConfig t;
    t.rates = rates, t.freeze = freeze;
    return message<ConfigError>([&] { parameter_groups(model, t); });
  };
  const std::string begin = "parameter names begin with blocks, cls_token, head, norm, patch_embed, pos_embed";
  EXPECT_EQ(refusal({"block.*=1"}, {}), "train.rates: no parameter is named \"block.*\"; " + begin);
  EXPECT_EQ(refusal({}, {"head"}), "train.freeze: no parameter is named \"head\"; " + begin);
  EXPECT_EQ(refusal({}, {"*"}), "train.freeze leaves no parameter to train");
  for (const std::string rate : {"*", "*=", "*=-0.5", "*=x", "*=1 ", "*=inf", "*=nan"}) {
    const std::string said = "train.rates must be PATTERN=FACTOR with a factor of at least 0, got \"" + rate + "\"";
    EXPECT_EQ(refusal({rate}, {}), said);
    ExperimentConfig config;
    config.train.rates = {rate};
    EXPECT_EQ(message<ConfigError>([&] { require_trainable(config); }), said);
  }
  ExperimentConfig config;  // the default configuration has six layers
  config.train.rates = {"encoder.layers.5.*=0.5"}, config.train.freeze = {"decoder.layers.5.*"};
  EXPECT_NO_THROW(require_trainable(config));
}

TEST(TrainingSetup, RefusesKeysThatDoNotGoTogether) {
  const auto refusal = [](const std::vector<std::string>& settings) {
    ExperimentConfig config = parse_config("[model]\nfamily = \"vit\"\n", "a.toml", settings);
    return message<ConfigError>([&] { require_trainable(config); });
  };
  EXPECT_EQ(refusal({"train.average_statistics=true"}),
            "train.average_statistics needs an average: train.average_decay must be above 0, got 0");
  EXPECT_EQ(refusal({"train.mix_off_epoch=3"}),
            "train.mix_off_epoch needs train.mixup or train.cutmix: one of them must be above 0, got 0 for both");
  for (const char* setting : {"train.head=new", "train.head=keep", "train.reset_iterations=false"})
    EXPECT_EQ(refusal({setting}),
              "train.head and train.reset_iterations need train.from, which must name a model, got \"\"");
  EXPECT_NO_THROW(require_trainable(
      parse_config("[model]\nfamily = \"vit\"\n", "a.toml",
                   {"train.epochs=3", "train.warmup_epochs=2", "train.schedule=cosine", "train.cutmix=1",
                    "train.mix_off_epoch=2", "train.average_decay=0.9", "train.average_statistics=true"})));
}

TEST(Resume, AmongEqualScoresTheSmallerLossIsBetter) {
  BestValidation best;
  EXPECT_TRUE(best.worse_than(0, 5));
  EXPECT_TRUE(best.worse_than(-1e9, 5));  // a score may be negative, such as minus a loss
  best = {1, 0, 5, ""};
  EXPECT_TRUE(best.worse_than(0, 4));
  EXPECT_TRUE(best.worse_than(0.5, 6));
  EXPECT_FALSE(best.worse_than(0, 5));
  EXPECT_FALSE(best.worse_than(-1, 4));
  EXPECT_FALSE(best.worse_than(0, std::nan("")));
}

TEST(Resume, RefusesTheCheckpointOfAnotherProgram) {
  CheckpointContents c = to_checkpoint({}, 4, "hash", 77);
  c.state.erase("batch");
  EXPECT_TRUE(begins(message<CheckpointError>([&] { from_checkpoint(c, "runs/a/checkpoints/step-00000004"); }),
                     "runs/a/checkpoints/step-00000004/state.json: \"batch\" must be an integer, got nothing"));
}

TEST(Resume, RefusesAnotherConfigurationAndNamesWhatHasChanged) {
  const TemporaryDirectory directory;
  const std::string file = directory / "config.toml";
  ExperimentConfig before, now;
  now.train.lr = 0.25;
  now.output.keep = 1;  // changes no trained number
  write_bytes(file, config_text(before));
  NewestCheckpoint checkpoint{"c/step-00000001", contents_of_step(1), {}};
  checkpoint.contents.config_hash = config_hash(before);
  EXPECT_NO_THROW(require_same_trajectory(checkpoint, before, file, false));
  EXPECT_NO_THROW(require_same_trajectory(checkpoint, now, file, true));
  const std::string start = "c/step-00000001: the configuration differs from the checkpoint's: ",
                    end = ". Pass --allow-config-change to resume anyway";
  EXPECT_EQ(message<CheckpointError>([&] { require_same_trajectory(checkpoint, now, file, false); }),
            start + "train.lr was 0.0005 and is now 0.25" + end);
  EXPECT_EQ(message<CheckpointError>([&] { require_same_trajectory(checkpoint, now, directory / "none", false); }),
            start + "the configuration's hash was " + config_hash(before) + " and is now " + config_hash(now) + end);
}

TEST(ExitCodes, OneForEachKindOfException) {
  const auto code = [](const auto& exception) {
    ::testing::internal::CaptureStderr();
    const int code = guarded([&]() -> int { throw exception; });
    return std::to_string(code) + " " + ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(guarded([] { return 42; }), 42);
  EXPECT_EQ(code(ConfigError("text")), "2 error: text\n");
  EXPECT_EQ(code(std::invalid_argument("text")), "2 error: text\n");
  EXPECT_EQ(code(FileError("path", "text")), "3 error: path: text\n");
  EXPECT_EQ(code(CheckpointError("text")), "4 error: text\n");
  EXPECT_EQ(code(Diverged("text")), "5 error: diverged: text\n");
  EXPECT_EQ(code(NonFiniteError("text")), "5 error: text\n");
  EXPECT_EQ(code(DeviceError("text")), "6 error: text\n");
  EXPECT_EQ(code(std::bad_alloc()), "6 error: memory ran out\n");
  EXPECT_EQ(code(std::runtime_error("text")), "1 error: text\n");
}

}  // namespace
}  // namespace foldgrad::testing
