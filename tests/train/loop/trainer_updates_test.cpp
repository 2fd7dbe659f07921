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
  const Schedule schedule({.shape = ScheduleShape::constant, .peak = 0.5, .initial = 0, .warmup = 2});
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

// With decay = 1/2 all weights are powers of 1/2, and only the products round.
TEST(Trainer, AVG_3_AveragesRunningStatisticsAndNothingElseThatNormalizersRemember) {
  for (const char* norm : {"un", "bn", "pn_star", "ln"}) {
    TransformerConfig config = small_config(norm);
    if (config.normalizer == "pn_star") config.normalizer_options = {{"mode", "reference"}};  // which has phi
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

// As in a run that is resumed with train.average_statistics which began without.
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

}  // namespace
}  // namespace foldgrad::testing
