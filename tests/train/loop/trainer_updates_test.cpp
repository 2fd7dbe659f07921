// With which random numbers and at which rate an update is made.
#include <gtest/gtest.h>

#include <set>

#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

// With one batch and a rate that moves nothing, only the random numbers of dropout tell one loss from another.
TEST(TrainerUpdates, EveryBatchOfAnUpdateHasItsOwnDropout) {
  const TransformerConfig config = with_dropout(small_config("ln"));
  const TrainerOptions options{.accumulate = 2, .seed = 5, .dtype = DType::f64};
  TinyTraining run(config, 3, options, Sgd{}, 1e-300, DType::f64);
  Batches batches(copies(1, 280), {.max_tokens = 4096, .shuffle = false});
  ASSERT_EQ(batches.per_epoch(), 1);
  BatchTask task(run.model, batches, /*label_smoothing=*/0);
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
    EXPECT_EQ(trainer.report().loss, (losses[2 * n] + losses[2 * n + 1]) / double(2 * batch.target_tokens)) << n;
  }
}

TEST(TrainerUpdates, UpdateNTakesTheRateOfNUpdatesBefore) {
  TinyTraining run(small_config("ln"), 3, {}, Sgd{}, 1);
  const Schedule schedule({.name = "constant", .peak = 0.5, .initial = 0, .warmup = 2});
  Trainer trainer(run.task, run.optimizer, schedule, {});
  for (const double lr : {0.0, 0.25, 0.5}) {
    const auto before = run.values();
    trainer.step();
    const auto after = run.values();
    double squares = 0;
    for (std::size_t i = 0; i < after.size(); ++i)
      for (std::size_t j = 0; j < after[i].size(); ++j) squares += std::pow(double(after[i][j]) - before[i][j], 2);
    const TrainingReport report = trainer.report();
    EXPECT_EQ(report.lr, lr);
    EXPECT_NEAR(std::sqrt(squares), lr * report.gradient_norm, 1e-5 * report.gradient_norm);  // f32
  }
}

}  // namespace
}  // namespace foldgrad::testing
