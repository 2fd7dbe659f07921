// Tests dropout, learning rates and averages in updates, and updates with a loss or gradient that is not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/engine/error_message.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

// Every step trains on the same batch, and a learning rate of 1e-300 moves no weight. So only dropout changes the loss.
TEST(TrainerUpdates, EveryBatchOfAnUpdateHasItsOwnDropout) {
  const TransformerConfig config = with_dropout(small_config("ln"));
  const TrainerOptions options{.accumulate = 2, .seed = 5, .dtype = DType::f64, .label_smoothing = 0};
  TinyTraining run(config, 3, options, Sgd{}, 1e-300, DType::f64);
  Batches batches(copies(1, 280), {.max_tokens = 4096, .shuffle = false});
  ASSERT_EQ(batches.per_epoch(), 1);
  BatchTask task(run.model, batches);
  Trainer trainer(task, run.optimizer, run.schedule, options);
  const Batch batch = Batches(copies(1, 280), {.max_tokens = 4096, .shuffle = false}).next();
  std::vector<double> losses;
  for (std::uint32_t step = 0; step < 6; ++step) {
    Tape tape;
    const ForwardPass pass{.tape = tape, .dtype = DType::f64, .training = true, .seed = 5, .step = step};
    losses.push_back(run.model.loss(batch.sentences, pass, 0).value().item());
  }
  EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), losses.size());
  for (int n = 0; n < 3; ++n) {
    trainer.step();
    EXPECT_EQ(trainer.report().loss, (losses[2 * n] + losses[2 * n + 1]) / double(2 * batch.target_tokens())) << n;
  }
}

TEST(TrainerUpdates, UpdateNTakesTheRateOfNUpdatesBefore) {
  TinyTraining run(small_config("ln"), 3, {}, Sgd{}, 1);
  const Schedule schedule({.shape = ScheduleShape::constant, .peak = 0.5, .initial = 0, .warmup = 2});
  Trainer trainer(run.task, run.optimizer, schedule, {});
  for (const double lr : {0.0, 0.25, 0.5}) {
    const auto before = run.values();
    trainer.step();
    const TrainingReport report = trainer.report();
    EXPECT_EQ(report.lr, lr);
    EXPECT_NEAR(run.distance(before), lr * report.gradient_norm, 1e-5 * report.gradient_norm);  // rounding in f32
  }
}

// With decay = 1/2 products are exact; only differences and sums are rounded.
TEST(Trainer, AVG_3_AveragesRunningStatisticsAndNothingElseThatNormalizersRemember) {
  for (const char* norm : {"un", "bn", "pn_star", "ln"}) {
    TransformerConfig config = small_config(norm);
    if (config.normalizer == "pn_star") config.normalizer_options = {{"mode", "reference"}};  // only this mode has phi
    TinyTraining run(config, 7, {.average_decay = 0.5, .average_statistics = true});
    NamedTensors want;
    for (const auto& [name, tensor] : run.model.state())
      if (name.ends_with(".run_mean") || name.ends_with(".run_var") || name.ends_with(".phi"))
        want[name] = tensor.to(DType::f64).clone();
    const std::size_t statistics = config.normalizer == "bn" ? 2 : config.normalizer == "ln" ? 0 : 1;
    ASSERT_EQ(want.size(), statistics * run.model.normalizers().size()) << norm;
    for (int step = 0; step < 4; ++step) {
      run.steps(1);
      for (auto& [name, average] : want)
        for (std::int64_t i = 0; i < average.size(); ++i)
          average.data<double>()[i] += 0.5 * (run.model.state().at(name).data<float>()[i] - average.data<double>()[i]);
    }
    NamedTensors averages = run.trainer.average()->state();
    for (const Parameter* p : run.model.parameters()) ASSERT_EQ(averages.erase(p->name), 1u) << p->name;
    ASSERT_EQ(averages.size(), want.size()) << norm;
    for (const auto& [name, average] : averages)
      for (std::int64_t i = 0; i < average.size(); ++i) {
        const double value = want.at(name).data<double>()[i];
        ASSERT_NEAR(average.data<float>()[i], value, 1e-6 * (1 + std::abs(value))) << name;
      }
  }
}

// A run that began without train.average_statistics can be resumed with it.
TEST(Trainer, AVG_3_StatisticsThatHaveNoAverageYetBeginAtTheirValues) {
  const TrainerOptions options{.average_decay = 0.5, .average_statistics = true};
  TinyTraining run(small_config("un"), 7, options), resumed(small_config("un"), 7, options);
  run.steps(3);
  TrainingState state = run.trainer.snapshot();
  const NamedTensors statistics = run.model.statistics();
  for (const auto& [name, value] : statistics) ASSERT_EQ(state.average.erase(name), 1u);
  resumed.trainer.restore(state);
  NamedTensors averages = resumed.trainer.average()->state();
  ASSERT_FALSE(statistics.empty());
  for (const auto& [name, value] : statistics) EXPECT_EQ(averages.at(name).values<float>(), value.values<float>());
  for (const auto& [name, value] : state.average) EXPECT_EQ(averages.at(name).values<float>(), value.values<float>());
}

// With alpha = infinity, dyt returns tanh(+-infinity) = +-1, but its derivative is infinity times zero, NaN.
TEST(Trainer, DivergenceOfAGradient) {
  TinyTraining run(small_config("dyt"), 3, {});
  for (Parameter* p : run.model.parameters())
    if (p->name.ends_with("alpha")) p->value.data<float>()[0] = INFINITY;
  run.trainer.restore(run.trainer.snapshot());
  run.steps(1);
  const std::string text = message<Diverged>([&] { run.trainer.report(); });
  EXPECT_EQ(text.rfind("decoder.", 0), 0u) << text;
  EXPECT_NE(text.find(": at step 1 the gradient of the result ["), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("nan at 0")) << text;  // the NaN may have either sign
}

TEST(Trainer, DivergenceOfAParameterFromTheStart) {
  TinyTraining run(small_config("ln"), 3, {});
  run.model.decoder_layers()[0].feed_forward.fc1.bias.value.data<float>()[5] = NAN;
  run.trainer.restore(run.trainer.snapshot());
  run.steps(1);
  EXPECT_EQ(message<Diverged>([&] { run.trainer.report(); }),
            "decoder.layers.0.ffn: bias_activation: at step 1 the result [240, 64] has 240 values that are not "
            "finite; the first is nan at 5");
}

constexpr std::int64_t kPoisoned = 400, kPoison = kFirstWord + kWords;

EncodedPairs poisoned_pairs() {
  EncodedPairs pairs = copies(1, 2);
  pairs.source[kPoisoned][0] = kPoison;
  return pairs;
}

TransformerConfig poisoned_config() {
  TransformerConfig config = with_dropout(small_config("un"));
  config.source_vocabulary += 1;
  config.share_embeddings = "none";
  return config;
}

// A training run in which one source sentence contains a word whose embedding is NaN. Only the batch with this sentence
// has a loss that is not finite.
struct PoisonedTraining : TinyTraining {
  explicit PoisonedTraining(OnNan on_nan, std::int64_t accumulate = 1)
      : TinyTraining(poisoned_config(), 7, {.accumulate = accumulate, .on_nan = on_nan, .average_decay = 0.5}, Adam{},
                     5e-3, DType::f32, poisoned_pairs()),
        accumulate(accumulate) {
    model.source_table().value.data<float>()[kPoison * 32 + 3] = NAN;
    trainer.restore(trainer.snapshot());
  }

  // Draws the batches of the next update. Returns true if one of them contains the poisoned sentence.
  bool draw() {
    bool poisoned = false;
    for (std::int64_t k = 0; k < accumulate; ++k) {
      const std::vector<std::int64_t> pairs = batches.next().pairs;
      poisoned = poisoned || std::find(pairs.begin(), pairs.end(), kPoisoned) != pairs.end();
    }
    return poisoned;
  }
  bool next_is_poisoned() {
    const DataCursor cursor = batches.cursor();
    const bool poisoned = draw();
    batches.seek(cursor);
    return poisoned;
  }
  // Returns all values of the training state, with NaN replaced by 0.
  std::vector<float> everything() {
    std::vector<float> all;
    const TrainingState state = trainer.snapshot();
    for (const auto* tensors : {&state.parameters, &state.normalizers, &state.optimizer, &state.average})
      for (const auto& [name, tensor] : *tensors)
        for (const float value : tensor.to(DType::f32).values<float>()) all.push_back(std::isnan(value) ? 0 : value);
    return all;
  }

  std::int64_t accumulate;
};

int updates_before_poison(std::int64_t accumulate) {
  PoisonedTraining run(OnNan::abort, accumulate);
  int n = 0;
  while (!run.draw()) ++n;
  return n;
}

TEST(Trainer, SkipLeavesOutTheBatchesOfAnUpdateThatFails) {
  for (const std::int64_t accumulate : {1, 2}) {
    const int poison = updates_before_poison(accumulate), updates = poison + 5;
    ASSERT_GT(poison, 1);
    PoisonedTraining reference(OnNan::abort, accumulate);
    while (reference.trainer.updates() < updates)
      if (reference.next_is_poisoned())
        reference.draw();
      else
        reference.trainer.step();
    for (const int every : {1, 3, updates}) {
      PoisonedTraining run(OnNan::skip, accumulate);
      std::vector<std::string> failures;
      while (run.trainer.updates() < updates) {
        run.trainer.step();
        if (run.trainer.updates() % every && run.trainer.updates() < updates) continue;
        const TrainingReport r = run.trainer.report();
        EXPECT_TRUE(std::isfinite(r.loss));
        failures.insert(failures.end(), r.failures.begin(), r.failures.end());
      }
      EXPECT_TRUE(run.everything() == reference.everything()) << accumulate << " " << every;
      ASSERT_EQ(failures.size(), 1u) << every;
      const std::string start = "encoder.embed_tokens: embedding: at step " + std::to_string(poison + 1);
      EXPECT_EQ(failures[0].rfind(start + " the result", 0), 0u) << failures[0];
    }
  }
}

TEST(Trainer, RollbackGoesBackToTheLastReportAndOnWithLaterBatches) {
  const int poison = updates_before_poison(1), updates = poison + 3, reported = poison - 1;
  PoisonedTraining run(OnNan::rollback), reference(OnNan::abort);
  for (PoisonedTraining* r : {&run, &reference}) {
    for (int i = 0; i < reported; ++i) r->trainer.step();
    r->trainer.report();
  }
  while (run.trainer.updates() < updates) run.trainer.step();
  EXPECT_EQ(run.trainer.report().failures.size(), 1u);
  EXPECT_FALSE(reference.draw());
  ASSERT_TRUE(reference.draw());
  while (reference.trainer.updates() < updates) reference.trainer.step();
  EXPECT_TRUE(run.everything() == reference.everything());
}

TEST(Trainer, GivesUpWhenOneFailureFollowsTheOther) {
  for (const OnNan on_nan : {OnNan::skip, OnNan::rollback}) {
    TinyTraining run(small_config("ln"), 3, {.on_nan = on_nan}, Sgd{}, 1e38);
    run.steps(4);
    const std::string diverged = message<Diverged>([&] { run.trainer.report(); });
    EXPECT_TRUE(diverged.ends_with("; this is failure 10 since the last report")) << diverged;
  }
}

}  // namespace
}  // namespace foldgrad::testing
