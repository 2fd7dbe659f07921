#include <chrono>
#include <cmath>
#include <thread>

#include "ops/arithmetic/arithmetic.h"
#include "tests/harness/compare.h"
#include "tests/train/tiny_training.h"
#include "train/loop/optimizer/gradient_clipping.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {
namespace {

// Checks that `got` equals `before` minus `rate` times the gradient of `before`, within tolerance(gradient) for each
// element, and that some element moved by more than 0.01.
template <class Tolerance>
void expect_descended(Transformer& got, Transformer& before, double rate, const Tolerance& tolerance) {
  double moved = 0;
  for (std::size_t i = 0; i < got.parameters().size(); ++i) {
    const Parameter &parameter = *got.parameters()[i], &from = *before.parameters()[i];
    const auto p = parameter.value.values<double>(), start = from.value.values<double>(),
               grad = from.grad.values<double>();
    for (std::size_t j = 0; j < p.size(); ++j) {
      EXPECT_NEAR(p[j], start[j] - rate * grad[j], tolerance(grad[j])) << parameter.name << " " << j;
      moved = std::max(moved, std::abs(p[j] - start[j]));
    }
  }
  EXPECT_GT(moved, 1e-2);
}

TEST(Trainer, TRN_1_AccumulatedBatchesWeighEveryTokenAlike) {
  const TransformerConfig config = small_config("ln");
  const double lr = 0.5;
  TinyTraining run(config, 3, {.accumulate = 3}, Sgd{}, lr, DType::f64);
  run.trainer.step();  // uses f32 activations by default, like the reference below
  TinyTraining reference(config, 3, {}, Sgd{}, lr, DType::f64);
  std::int64_t tokens = 0;
  Tape tape;
  for (int k = 0; k < 3; ++k) {
    const Batch batch = reference.batches.next();
    tokens += batch.target_tokens();
    tape.backward(reference.model.loss(batch.sentences, {.tape = tape, .dtype = DType::f32, .training = true}, 0.1));
    tape.clear();
  }
  // Activations are f32, so the gradient of a mean and that of a sum differ by rounding errors of about 1e-6.
  expect_descended(run.model, reference.model, lr / double(tokens), [](double) { return 1e-6; });
}

TEST(Trainer, TRN_2_PenaltiesOfNormalizersAreAddedToTheSumOfLosses) {
  const TransformerConfig config = small_config("rbn");
  const double lr = 0.5;
  TinyTraining run(config, 3, {.dtype = DType::f64}, Sgd{}, lr, DType::f64);
  run.trainer.step();
  TinyTraining reference(config, 3, {}, Sgd{}, lr, DType::f64);
  const Batch batch = reference.batches.next();
  Tape tape;
  std::vector<Var> penalties;
  const Var loss = reference.model.loss(
      batch.sentences, {.tape = tape, .dtype = DType::f64, .training = true, .seed = 1, .penalties = &penalties}, 0.1);
  ASSERT_EQ(penalties.size(), reference.model.normalizers().size());
  Var total = loss;
  for (const Var& penalty : penalties) {
    EXPECT_GT(penalty.value().item(), 0);
    total = add(total, penalty);
  }
  tape.backward(scale(total, 1 / double(batch.target_tokens())));
  // The reference sums in another order, so rounding errors differ.
  expect_descended(run.model, reference.model, lr, [](double grad) { return 1e-11 * (1 + std::abs(grad)); });
  EXPECT_NEAR(run.trainer.report().loss, loss.value().item() / double(batch.target_tokens()), 1e-12);
}

TEST(Trainer, ReportsMeansSinceTheLastReport) {
  EncodedPairs pairs = copies(1, 2);
  // Targets are one token longer than sources, so the test fails if the trainer confuses their counts.
  for (Ids& ids : pairs.target) ids.insert(ids.begin(), kFirstWord);
  Batches same(pairs, {.max_tokens = 256, .seed = 3});
  TinyTraining run(small_config("ln"), 3, {.label_smoothing = 0}, Adam{}, 5e-3, DType::f32, pairs);
  for (Parameter* p : run.model.parameters()) p->value.zero();  // all logits are 0, so the loss is log 9
  run.trainer.step();
  run.trainer.report();
  for (Parameter* p : run.model.parameters()) p->value.zero();
  run.trainer.step();
  const TrainingReport report = run.trainer.report();
  same.next();
  const Batch second = same.next();
  EXPECT_EQ(report.updates, 2);
  EXPECT_EQ(report.weight, second.target_tokens());
  EXPECT_EQ(report.work, second.source_tokens() + second.target_tokens());
  EXPECT_NEAR(report.loss, std::log(9.0), 1e-6);  // rounding in f32
  EXPECT_GT(report.seconds, 0);
  EXPECT_EQ(report.work_per_second(), double(second.source_tokens() + second.target_tokens()) / report.seconds);
}

// A run may validate between a report and the next update. The trainer must not count this time as its own.
TEST(Trainer, TimeBetweenAReportAndTheNextUpdateDoesNotCount) {
  using Clock = std::chrono::steady_clock;
  TinyTraining run(small_config("ln"), 1, {});
  run.steps(1);
  (void)run.trainer.report();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  (void)run.trainer.snapshot();
  const Clock::time_point begin = Clock::now();
  run.steps(1);
  const double seconds = run.trainer.report().seconds;
  EXPECT_LE(seconds, std::chrono::duration<double>(Clock::now() - begin).count());
}

TEST(Trainer, ACheckLeavesNoTraceInTheNextReport) {
  const TransformerConfig config = with_dropout(small_config("un"));
  TinyTraining whole(config, 7, {.seed = 5}), stopped(config, 7, {.seed = 5}), resumed(config, 7, {.seed = 5});
  whole.steps(5);
  stopped.steps(2);
  EXPECT_TRUE(stopped.trainer.check().empty());
  EXPECT_GT(stopped.trainer.snapshot().since_report.seconds, 0);
  resumed.trainer.restore(stopped.trainer.snapshot());
  resumed.steps(3);
  for (int i = 0; i < 2; ++i) {  // the second report covers only the updates after the first
    const TrainingReport want = whole.trainer.report(), got = resumed.trainer.report();
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_EQ(got.gradient_norm, want.gradient_norm);
    EXPECT_EQ(got.weight, want.weight);
    EXPECT_EQ(got.work, want.work);
    whole.steps(2);
    resumed.steps(2);
  }
}

// With plain SGD and a learning rate of 1, the old weights minus the new ones are the gradient.
TEST(Trainer, AGC_1_AGC_2_ClipsTheGradientOfEveryUnitButOfTheOutputUnlessToldTo) {
  constexpr double kClipping = 0.02;
  TransformerConfig config = small_config("ln");
  config.share_embeddings = "none", config.output_bias = true;
  const auto gradients = [&](const TrainerOptions& options) {
    TinyTraining run(config, 3, options, Sgd{}, 1, DType::f64);
    const NamedTensors before = clone(run.model.values());
    run.trainer.step();
    NamedTensors all;
    for (const auto& [name, value] : run.model.values()) {
      Tensor& gradient = all[name] = before.at(name).clone();
      for (std::int64_t i = 0; i < value.size(); ++i) gradient.data<double>()[i] -= value.data<double>()[i];
    }
    return all;
  };
  const NamedTensors plain = gradients({.dtype = DType::f64}),
                     clipped = gradients({.agc = kClipping, .dtype = DType::f64}),
                     all = gradients({.agc = kClipping, .agc_exclude = Unclipped::none, .dtype = DType::f64});
  Transformer model(config, 3, DType::f64);
  for (Parameter* p : model.parameters()) p->grad = plain.at(p->name).clone(), p->has_grad = true;
  clip_adaptively(model.parameters(), kClipping);
  int changed = 0;
  for (const Parameter* p : model.parameters()) {
    const bool output = p->name.find("output_projection") != std::string::npos;
    // Subtracting the gradient from weights of up to 1 causes rounding errors of about 1e-16.
    EXPECT_TRUE(close(all.at(p->name), p->grad, 1e-15)) << p->name;
    EXPECT_TRUE(close(clipped.at(p->name), output ? plain.at(p->name) : p->grad, 1e-15)) << p->name;
    const bool differs = !close(p->grad, plain.at(p->name), 1e-9);
    changed += differs;
    EXPECT_TRUE(differs || !output) << p->name;
  }
  EXPECT_GT(changed, 5);
}

TEST(Trainer, Errors) {
  EXPECT_EQ(message<std::invalid_argument>([] { TinyTraining(small_config("ln"), 1, {.accumulate = 0}); }),
            "trainer: accumulate must be at least 1, got 0");
  EXPECT_EQ(message<std::invalid_argument>([] { TinyTraining(small_config("ln"), 1, {.clip = -1}); }),
            "trainer: clip must be at least 0, got -1");
  EXPECT_EQ(message<std::invalid_argument>([] { TinyTraining(small_config("ln"), 1, {.agc = -1}); }),
            "trainer: agc must be at least 0, got -1");
  TinyTraining run(small_config("ln"), 1, {});
  EXPECT_EQ(message<std::invalid_argument>([&] { run.trainer.report(); }),
            "trainer: there has been no step since the last report");
  TrainingState state = run.trainer.snapshot();
  Parameter* p = run.model.parameters()[1];
  state.parameters[p->name] = Tensor::zeros({3}, DType::f32);
  const auto before = run.values();
  EXPECT_EQ(
      message<std::invalid_argument>([&] { run.trainer.restore(state); }),
      fmt::format("trainer: {} of the saved state must be f32 {}, got f32 [3] on cpu", p->name, p->value.shape()));
  state.parameters.erase(p->name);
  EXPECT_EQ(message<std::invalid_argument>([&] { run.trainer.restore(state); }),
            fmt::format("trainer: the saved state has no {}", p->name));
  EXPECT_EQ(run.values(), before);
}

TEST(Evaluation, VAL_1_VAL_2_MeanOfPairsWithoutSmoothing) {
  Transformer model(small_config("ln"), 1);
  const EncodedPairs pairs = copies(1, 100);
  double sum = 0, tokens = 0;
  for (std::size_t i = 0; i < pairs.source.size(); ++i) {
    Batches one({{pairs.source[i]}, {pairs.target[i]}}, {});
    const Batch batch = one.next();
    Tape tape;
    sum += model.loss(batch.sentences, {.tape = tape, .dtype = DType::f32}, 0).value().item();
    tokens += double(pairs.target[i].size());
  }
  Batches batches(pairs, {.max_tokens = 30, .shuffle = false});
  batches.next();  // validation must nevertheless begin at the first batch
  const ValidationLoss got = validation_loss(model, batches);
  EXPECT_EQ(got.target_tokens, std::int64_t(tokens));
  EXPECT_NEAR(got.loss, sum / tokens, 1e-5);  // rounding in f32
  EXPECT_NEAR(got.perplexity, std::exp(sum / tokens), 1e-4);
}

}  // namespace
}  // namespace foldgrad::testing
