#include "train/runs/setup.h"

#include <gtest/gtest.h>

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
  t.optimizer = "adam";
  expect_adam(std::get<Adam>(optimizer_rule(t)));
  t.optimizer = "adamw";
  expect_adam(std::get<AdamW>(optimizer_rule(t)));
  t.optimizer = "sgd";
  EXPECT_EQ(std::get<Sgd>(optimizer_rule(t)).momentum, 0.25);
  EXPECT_TRUE(std::get<Sgd>(optimizer_rule(t)).nesterov);
}

TEST(TrainingSetup, SchedulesPassThroughTheKeysRates) {
  TrainConfig t;
  t.lr = 0.5, t.initial_lr = 0.125, t.minimum_lr = 0.25, t.warmup = 4, t.steps = 12;
  const auto lr = [&](const char* name, std::int64_t n) {
    t.schedule = name;
    return Schedule(schedule_options(t)).lr(n);
  };
  for (const char* name : {"inverse_sqrt", "cosine", "constant"}) {
    EXPECT_EQ(lr(name, 0), 0.125) << name;
    EXPECT_EQ(lr(name, 4), 0.5) << name;
  }
  EXPECT_EQ(lr("inverse_sqrt", 16), 0.25);
  EXPECT_EQ(lr("constant", 16), 0.5);
  EXPECT_DOUBLE_EQ(lr("cosine", 8), 0.375);
  EXPECT_EQ(lr("cosine", 12), 0.25);
}

TEST(TrainingSetup, TheTrainerGetsItsKeys) {
  TrainConfig t;
  t.clip = 2, t.accumulate = 3, t.seed = 7, t.average_decay = 0.5;
  const auto on_nan = [&](const char* name) {
    t.on_nan = name;
    return trainer_options(t).on_nan;
  };
  EXPECT_EQ(on_nan("abort"), OnNan::abort);
  EXPECT_EQ(on_nan("skip"), OnNan::skip);
  EXPECT_EQ(on_nan("rollback"), OnNan::rollback);
  EXPECT_EQ(trainer_options(t).dtype, DType::f32);
  t.dtype = "bf16";
  const TrainerOptions options = trainer_options(t);
  EXPECT_EQ(options.dtype, DType::bf16);
  EXPECT_EQ(options.clip, 2);
  EXPECT_EQ(options.accumulate, 3);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.average_decay, 0.5);
}

}  // namespace
}  // namespace foldgrad::testing
