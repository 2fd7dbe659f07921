#include "train/trainer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/train/program.h"
#include "train/evaluation.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kWords = 5, kFirstWord = 4;

// Sentences of 1 to 5 words, to be copied: numbers of base 5, whose digits do not tell odd from even one by one.
EncodedPairs copies(std::int64_t begin, std::int64_t step) {
  EncodedPairs pairs;
  for (std::int64_t n = begin; n < 2000; n += step) {
    Ids ids;
    for (std::int64_t rest = n; rest > 0; rest /= kWords) ids.push_back(kFirstWord + rest % kWords);
    ids.push_back(kEos);
    pairs.source.push_back(ids);
    pairs.target.push_back(ids);
  }
  return pairs;
}

TransformerConfig small_config(const std::string& normalizer) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = kFirstWord + kWords;
  config.width = 32, config.ffn_width = 64, config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.max_positions = 16;
  config.dropout = config.attention_dropout = config.activation_dropout = 0;
  config.normalizer = normalizer;
  if (normalizer == "un") config.normalizer_options = {{"warmup", "3"}, {"window", "2"}};
  return config;
}

// All that a run consists of, on sentences 1, 3, 5, ...
struct TinyTraining {
  TinyTraining(const TransformerConfig& config, std::uint64_t seed, const TrainerOptions& options,
               const Optimizer::Rule& rule = Adam{}, double lr = 5e-3, DType dtype = DType::f32)
      : model(config, seed, dtype),
        optimizer(rule, {{.parameters = model.parameters()}}),
        schedule({.name = "constant", .peak = lr}),
        batches(copies(1, 2), {.max_tokens = 256, .seed = seed}),
        trainer(model, optimizer, schedule, batches, options) {}

  void steps(int n) {
    for (int i = 0; i < n; ++i) trainer.step();
  }
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (const Parameter* p : model.parameters()) all.push_back(p->value.values<float>());
    for (const auto& [name, tensor] : model.state()) all.push_back(tensor.to(DType::f32).values<float>());
    if (trainer.average())
      for (const auto& [name, tensor] : trainer.average()->state()) all.push_back(tensor.values<float>());
    return all;
  }

  Transformer model;
  Optimizer optimizer;
  Schedule schedule;
  Batches batches;
  Trainer trainer;
};

bool same_state(Transformer& a, Transformer& b) {
  const auto s = a.state(), t = b.state();
  return std::equal(s.begin(), s.end(), t.begin(), t.end(), [](const auto& x, const auto& y) {
    return x.first == y.first &&
           x.second.to(DType::f32).template values<float>() == y.second.to(DType::f32).template values<float>();
  });
}

TransformerConfig with_dropout(TransformerConfig config) {
  config.dropout = config.attention_dropout = config.activation_dropout = 0.1;
  return config;
}

TEST(Trainer, LearnsToCopyUnseenSentences) {
  for (const char* norm : {"ln", "un"}) {
    TinyTraining run(small_config(norm), 1, {.label_smoothing = 0, .clip = 1}, Adam{}, 3e-3);
    run.steps(1);
    EXPECT_GT(run.trainer.report().loss, 1.5) << norm;  // guessing one of 6 costs log 6 = 1.79
    run.steps(300);
    const TrainingReport last = run.trainer.report();
    EXPECT_EQ(last.updates, 301);
    EXPECT_EQ(last.lr, 3e-3);
    Batches unseen(copies(2, 2), {.max_tokens = 256, .shuffle = false});
    EXPECT_LT(validation_loss(run.model, unseen).loss, 0.1) << norm;
    const EncodedPairs test = copies(2, 2);
    const std::vector<Ids> got = translations(run.model, test.source, {.beam = 1}, 256);
    int right = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      Ids ended = got[i];
      ended.push_back(kEos);
      right += ended == test.target[i];
    }
    EXPECT_GT(right, 0.9 * double(got.size())) << norm;  // also: results are in the order of the sources
  }
}

TEST(Trainer, SameSeedSameBits) {
  const TransformerConfig config = with_dropout(small_config("un"));
  const TrainerOptions options{.clip = 1, .seed = 5};
  TinyTraining a(config, 7, options), b(config, 7, options), other_dropout(config, 7, {.clip = 1, .seed = 6});
  for (TinyTraining* run : {&a, &b, &other_dropout}) run->steps(6);
  EXPECT_EQ(a.values(), b.values());
  EXPECT_NE(a.values(), other_dropout.values());
}

RC_GTEST_PROP(Trainer, ResumedRunHasTheBitsOfTheUninterruptedOne, ()) {
  const int before = *rc::gen::inRange(0, 8), after = *rc::gen::inRange(1, 8);
  const TransformerConfig config = with_dropout(small_config("un"));
  const TrainerOptions options{
      .clip = 0.5, .accumulate = *rc::gen::inRange(1, 3), .average_decay = *rc::gen::element(0.0, 0.75)};
  TinyTraining whole(config, 7, options);
  whole.steps(before);
  const TrainingState state = whole.trainer.snapshot();
  whole.steps(after);                        // which must leave the snapshot as it is
  TinyTraining resumed(config, 8, options);  // the batches of seed 7 are needed
  Batches batches(copies(1, 2), {.max_tokens = 256, .seed = 7});
  Trainer trainer(resumed.model, resumed.optimizer, resumed.schedule, batches, options);
  trainer.restore(state);
  for (int i = 0; i < after; ++i) trainer.step();
  RC_ASSERT(trainer.updates() == before + after);
  if (trainer.average())
    for (const auto& [name, tensor] : trainer.average()->state())
      RC_ASSERT(tensor.values<float>() == whole.trainer.average()->state().at(name).values<float>());
  const auto want = whole.values(), got = resumed.values();
  for (std::size_t i = 0; i < whole.model.parameters().size(); ++i) RC_ASSERT(want[i] == got[i]);
  RC_ASSERT(same_state(whole.model, resumed.model));
}

TEST(Trainer, TRN_1_AccumulatedBatchesWeighEveryTokenAlike) {
  const TransformerConfig config = small_config("ln");
  const double lr = 0.5;
  TinyTraining run(config, 3, {.label_smoothing = 0.1, .accumulate = 3}, Sgd{}, lr, DType::f64);
  run.trainer.step();  // in f32 activations would be cast, so the reference below does the same
  TinyTraining reference(config, 3, {}, Sgd{}, lr, DType::f64);
  std::int64_t tokens = 0;
  Tape tape;
  for (int k = 0; k < 3; ++k) {
    const Batch batch = reference.batches.next();
    tokens += batch.target_tokens;
    tape.backward(reference.model.loss(to_device(batch, Device::cpu),
                                       {.tape = tape, .dtype = DType::f32, .training = true}, 0.1));
    tape.clear();
  }
  const auto got = run.model.parameters(), want = reference.model.parameters();
  double moved = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto p = got[i]->value.values<double>(), before = want[i]->value.values<double>(),
               grad = want[i]->grad.values<double>();
    for (std::size_t j = 0; j < p.size(); ++j) {
      // Activations are f32, so gradients of a sum and of a mean agree to some 1e-6 of the largest.
      EXPECT_NEAR(p[j], before[j] - lr * grad[j] / double(tokens), 1e-6) << got[i]->name << " " << j;
      moved = std::max(moved, std::abs(p[j] - before[j]));
    }
  }
  EXPECT_GT(moved, 1e-2);
}

TEST(Trainer, ReportsMeansSinceTheLastReport) {
  TinyTraining run(small_config("ln"), 3, {.label_smoothing = 0});
  for (Parameter* p : run.model.parameters()) p->value.zero();  // then logits are 0, also after the first update
  EncodedPairs pairs = copies(1, 2);
  for (Ids& ids : pairs.target) ids.insert(ids.begin(), kFirstWord);  // one token more than the sources
  Batches batches(pairs, {.max_tokens = 256, .seed = 3}), same(pairs, {.max_tokens = 256, .seed = 3});
  Trainer trainer(run.model, run.optimizer, run.schedule, batches, {.label_smoothing = 0});
  trainer.step();
  trainer.report();
  for (Parameter* p : run.model.parameters()) p->value.zero();
  trainer.step();
  const TrainingReport report = trainer.report();
  same.next();
  const Batch second = same.next();
  EXPECT_EQ(report.updates, 2);
  EXPECT_EQ(report.source_tokens, second.source_tokens);
  EXPECT_EQ(report.target_tokens, second.target_tokens);
  EXPECT_NEAR(report.loss, std::log(9.0), 1e-6);  // f32
  EXPECT_GT(report.seconds, 0);
  EXPECT_EQ(report.tokens_per_second(), double(second.source_tokens + second.target_tokens) / report.seconds);
}

TEST(Trainer, ClipsTheNormOfTheGradient) {
  TinyTraining run(small_config("ln"), 3, {.clip = 0.125}, Sgd{}, 1);
  const auto before = run.values();
  run.trainer.step();
  const auto after = run.values();
  double squares = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    for (std::size_t j = 0; j < after[i].size(); ++j) squares += std::pow(double(after[i][j]) - before[i][j], 2);
  EXPECT_GT(run.trainer.report().gradient_norm, 0.25);
  EXPECT_NEAR(std::sqrt(squares), 0.125, 1e-5);  // f32, and [CLIP-2] adds 1e-6 to the norm
}

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
                 "decoder.layers.0.ffn: bias_activation: at step 1 the result [40, 6, 64] has 240 values that are not "
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
    trainer =
        std::make_unique<Trainer>(*model, *optimizer, schedule, *batches,
                                  TrainerOptions{.accumulate = accumulate, .on_nan = on_nan, .average_decay = 0.5});
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
    const BatchCursor cursor = batches->cursor();
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
  Schedule schedule{{.name = "constant", .peak = 5e-3}};
  std::unique_ptr<Transformer> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Batches> batches;
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

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Trainer, Errors) {
  EXPECT_EQ(message_of([] { TinyTraining(small_config("ln"), 1, {.accumulate = 0}); }),
            "trainer: accumulate must be at least 1, got 0");
  EXPECT_EQ(message_of([] { TinyTraining(small_config("ln"), 1, {.clip = -1}); }),
            "trainer: clip must be at least 0, got -1");
  TinyTraining run(small_config("ln"), 1, {});
  EXPECT_EQ(message_of([&] { run.trainer.report(); }), "trainer: there was no step since the last report");
  TrainingState state = run.trainer.snapshot();
  Parameter* p = run.model.parameters()[1];
  state.parameters[p->name] = Tensor::zeros({3}, DType::f32);
  const auto before = run.values();
  EXPECT_EQ(message_of([&] { run.trainer.restore(state); }),
            fmt::format("trainer: parameter {} must be f32 {}, got f32 [3]", p->name, p->value.shape()));
  state.parameters.erase(p->name);
  EXPECT_EQ(message_of([&] { run.trainer.restore(state); }),
            fmt::format("trainer: the state has no parameter {}", p->name));
  EXPECT_EQ(run.values(), before);
}

TEST(Evaluation, VAL_1_VAL_2_UniformDistribution) {
  Transformer model(small_config("ln"), 1);
  model.output_table().value.zero();
  Batches batches(copies(1, 40), {.max_tokens = 30, .shuffle = false});
  ASSERT_GT(batches.per_epoch(), 3);
  const ValidationLoss got = validation_loss(model, batches);
  std::int64_t tokens = 0;
  for (const Ids& ids : copies(1, 40).target) tokens += std::int64_t(ids.size());
  EXPECT_EQ(got.target_tokens, tokens);
  EXPECT_NEAR(got.loss, std::log(9.0), 1e-6);  // f32
  EXPECT_NEAR(got.perplexity, 9, 1e-5);
}

TEST(Evaluation, VAL_1_MeanOfPairsWithoutSmoothing) {
  Transformer model(small_config("ln"), 1);
  const EncodedPairs pairs = copies(1, 100);
  double sum = 0, tokens = 0;
  for (std::size_t i = 0; i < pairs.source.size(); ++i) {
    Batches one({{pairs.source[i]}, {pairs.target[i]}}, {});
    const Batch batch = one.next();
    Tape tape;
    sum += model.loss(to_device(batch, Device::cpu), {.tape = tape, .dtype = DType::f32}, 0).value().item();
    tokens += double(batch.target_tokens);
  }
  Batches batches(pairs, {.max_tokens = 30, .shuffle = false});
  batches.next();  // validation begins at the first batch all the same
  EXPECT_NEAR(validation_loss(model, batches).loss, sum / tokens, 1e-5);  // f32
}

TEST(Evaluation, TranslationsDoNotDependOnBatches) {
  Transformer model(small_config("ln"), 1);
  const std::vector<Ids> sources = copies(1, 40).source;
  EXPECT_EQ(translations(model, sources, {.beam = 1}, 12), translations(model, sources, {.beam = 1}, 4096));
}

TEST(DemoCommand, UsageErrors) {
  const ProgramResult norm = run_program("demo --norm unn"), steps = run_program("demo --steps 0");
  EXPECT_EQ(norm.exit_code, 2);
  EXPECT_EQ(norm.err.substr(0, norm.err.find('\n')),
            "error: --norm: there is no normalizer \"unn\"; did you mean \"un\"?");
  EXPECT_EQ(steps.exit_code, 2);
}

}  // namespace
}  // namespace foldgrad::testing
