// Updates that are not finite: what is said of them, and how training goes on.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

TEST(Trainer, DivergenceNamesLayerAndStep) {
  TinyTraining run(small_config("ln"), 3, {}, Sgd{}, 1e38);
  run.steps(4);
  try {
    run.trainer.report();
    FAIL() << "no error";
  } catch (const Diverged& e) {
    // The first update makes parameters near 1e38, on which the forward pass of the second overflows.
    const std::string message = e.what();
    EXPECT_EQ(message.rfind("encoder.", 0), 0u) << message;
    EXPECT_NE(message.find(": at step 2 the result ["), std::string::npos) << message;
  }
}

TEST(Trainer, DivergenceOfAParameterFromTheStart) {
  TinyTraining run(small_config("ln"), 3, {});
  run.model.decoder_layers()[0].feed_forward.fc1.bias.value.data<float>()[5] = NAN;
  run.trainer.restore(run.trainer.snapshot());
  run.steps(1);
  try {
    run.trainer.report();
    FAIL() << "no error";
  } catch (const Diverged& e) {
    EXPECT_STREQ(e.what(),
                 "decoder.layers.0.ffn: bias_activation: at step 1 the result [240, 64] has 240 values that are not "
                 "finite, the first, nan, at 5");
  }
}

// One source has a word whose embedding is NaN, so that its batch, and no other, gives a loss that is not finite.
struct PoisonedTraining {
  explicit PoisonedTraining(OnNan on_nan, std::int64_t accumulate = 1) : accumulate(accumulate) {
    EncodedPairs pairs = copies(1, 2);
    pairs.source[kPoisoned][0] = kFirstWord + kWords;
    TransformerConfig config = with_dropout(small_config("un"));
    config.source_vocabulary += 1;
    config.share_embeddings = "none";
    model = std::make_unique<Transformer>(config, 7);
    const Tensor row = model->source_table().value;
    row.data<float>()[(kFirstWord + kWords) * 32 + 3] = NAN;
    optimizer = std::make_unique<Optimizer>(Adam{}, std::vector<ParameterGroup>{{.parameters = model->parameters()}});
    batches = std::make_unique<Batches>(pairs, BatchOptions{.max_tokens = 256, .seed = 7});
    task = std::make_unique<BatchTask>(*model, *batches);
    trainer = std::make_unique<Trainer>(
        *task, *optimizer, schedule, TrainerOptions{.accumulate = accumulate, .on_nan = on_nan, .average_decay = 0.5});
  }

  // Draws the batches of an update, and tells whether the poisoned sentence is among them.
  bool draw() {
    bool poisoned = false;
    for (std::int64_t k = 0; k < accumulate; ++k) {
      const std::vector<std::int64_t> pairs = batches->next().pairs;
      poisoned = poisoned || std::find(pairs.begin(), pairs.end(), kPoisoned) != pairs.end();
    }
    return poisoned;
  }
  bool next_is_poisoned() {
    const DataCursor cursor = batches->cursor();
    const bool poisoned = draw();
    batches->seek(cursor);
    return poisoned;
  }
  // Everything, NaN as 0.
  std::vector<float> values() {
    std::vector<float> all;
    const TrainingState state = trainer->snapshot();
    for (const auto* tensors : {&state.parameters, &state.normalizers, &state.optimizer, &state.average})
      for (const auto& [name, tensor] : *tensors)
        for (const float value : tensor.to(DType::f32).values<float>()) all.push_back(std::isnan(value) ? 0 : value);
    return all;
  }

  static constexpr std::int64_t kPoisoned = 400;
  std::int64_t accumulate;
  Schedule schedule{{.shape = ScheduleShape::constant, .peak = 5e-3}};
  std::unique_ptr<Transformer> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Batches> batches;
  std::unique_ptr<BatchTask> task;
  std::unique_ptr<Trainer> trainer;
};

// The updates before the poisoned batch comes.
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
    while (reference.trainer->updates() < updates)
      if (reference.next_is_poisoned())
        reference.draw();
      else
        reference.trainer->step();
    for (const int every : {1, 3, updates}) {
      PoisonedTraining run(OnNan::skip, accumulate);
      std::vector<std::string> failures;
      while (run.trainer->updates() < updates) {
        run.trainer->step();
        if (run.trainer->updates() % every && run.trainer->updates() < updates) continue;
        const TrainingReport r = run.trainer->report();
        EXPECT_TRUE(std::isfinite(r.loss));
        failures.insert(failures.end(), r.failures.begin(), r.failures.end());
      }
      EXPECT_TRUE(run.values() == reference.values()) << accumulate << " " << every;
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
    for (int i = 0; i < reported; ++i) r->trainer->step();
    r->trainer->report();
  }
  while (run.trainer->updates() < updates) run.trainer->step();
  EXPECT_EQ(run.trainer->report().failures.size(), 1u);
  EXPECT_FALSE(reference.draw());
  ASSERT_TRUE(reference.draw());
  while (reference.trainer->updates() < updates) reference.trainer->step();
  EXPECT_TRUE(run.values() == reference.values());
}

TEST(Trainer, GivesUpWhenOneFailureFollowsTheOther) {
  for (const OnNan on_nan : {OnNan::skip, OnNan::rollback}) {
    TinyTraining run(small_config("ln"), 3, {.on_nan = on_nan}, Sgd{}, 1e38);
    run.steps(4);
    try {
      run.trainer.report();
      FAIL() << "no error";
    } catch (const Diverged& e) {
      const std::string message = e.what(), end = "; this is failure 10 since the last report";
      EXPECT_EQ(message.substr(message.size() - std::min(message.size(), end.size())), end);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
