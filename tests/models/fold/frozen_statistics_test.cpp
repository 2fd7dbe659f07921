// Tests that inference is the training pass with frozen statistics. If every training statistic equals the running
// statistic, then the training pass, inference on the tape, the folded model and inference without a tape give the same
// logits.
#include "tests/models/fold/frozen_statistics.h"

#include <set>

#include "models/fold/model.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

// Returns a pre-norm and a post-norm configuration for each setting. Their tables are untied, so that the decoder's
// last normalizer folds, too.
std::vector<TransformerConfig> configs(const std::vector<Setting>& settings) {
  std::vector<TransformerConfig> all;
  for (const Setting& setting : settings)
    for (bool pre_norm : {true, false}) {
      all.push_back(tiny_config(setting.normalizer, pre_norm));
      all.back().normalizer_options = setting.options;
      all.back().share_embeddings = "none";
    }
  return all;
}

void freeze_at(Transformer& model, const TranslationBatch& batch, std::int64_t iterations) {
  freeze(model, iterations,
         [&](Tape& tape) { (void)model.logits(batch, {.tape = tape, .dtype = model.dtype(), .training = true}); });
}

void expect_one_function(Transformer& model, const TranslationBatch& batch, double tolerance) {
  const DType dtype = model.dtype();
  const FoldedModel folded = fold(model, {.rescale_stream = true});
  const NamedTensors all{
      {"inference", logits_by_tape(model, batch, /*training=*/false)},
      {"folded", logits_by_tape(transformer_of(folded), batch, /*training=*/false)},
      {"without a tape", logits_by_steps(InferenceTransformer(model, dtype), batch)},
      {"folded, without a tape", logits_by_steps(InferenceTransformer(transformer_of(folded), dtype), batch)}};
  const Tensor want = logits_by_tape(model, batch, /*training=*/true);  // computed last, since it changes the state
  for (const auto& [name, logits] : all) EXPECT_LE(difference(logits, want).relative, tolerance) << name;
  for (Normalizer* norm : model.normalizers()) EXPECT_EQ(norm->diagnostics().skips, 0) << norm->site();
}

TEST(FrozenStatistics, EveryOfflineNormalizerIsHere) {
  std::set<std::string> here;
  for (const Setting& setting : settings()) here.insert(setting.normalizer);
  for (const NormalizerInfo& info : normalizers()) EXPECT_TRUE(!info.offline() || here.count(info.name)) << info.name;
}

// Starting at iteration 1001, MABN and the released UN correct by r. Results differ only by the order of summation and,
// in f32, by the rounding of folded maps and running statistics. With 100 seeds, we saw differences of up to 3e-15 in
// f64 and 9e-7 in f32.
TEST(FrozenStatistics, TrainingInferenceAndFoldedModelsAgreeWithATapeAndWithout) {
  const TranslationBatch batch = translation_batch();
  struct Run {
    DType dtype;
    std::int64_t iterations;
    double tolerance;
  };
  for (const auto& [dtype, iterations, tolerance] :
       {Run{DType::f64, 100, 1e-12}, {DType::f64, 2000, 1e-12}, {DType::f32, 100, 2e-6}, {DType::f32, 2000, 2e-6}})
    for (const TransformerConfig& config : configs(settings())) {
      SCOPED_TRACE(describe(config) + ", " + name(dtype) + ", iteration " + std::to_string(iterations + 1));
      Transformer model(config, 1, dtype);
      randomize(model, 1000, 0.15);
      freeze_at(model, batch, iterations);
      expect_one_function(model, batch, tolerance);
    }
}

// If r is within its limits, r / sqrt(var_hat + eps) = 1 / sqrt(run_var + eps) for any batch [MABN-1]. So training and
// inference agree on `other`, too, although the statistics were frozen on `batch`. On `other`, r is within its limits.
TEST(FrozenStatistics, WhereRCorrectsTrainingIsInferenceOfAnyBatch) {
  const TranslationBatch batch = translation_batch();
  const TranslationBatch other{batch.source, Sentences::of({{2, 9, 4, 7}, {2, 8, 8, 3}, {2, 5, 10, 6}}), {}};
  for (const TransformerConfig& config :
       configs({{"mabn", {{"mode", "reference"}}}, {"un", {{"rescale", "both"}, {"warmup", "2"}}}})) {
    SCOPED_TRACE(describe(config));
    Transformer model(config, 1, DType::f64);
    randomize(model, 1000, 0.15);
    freeze_at(model, batch, 2000);
    expect_one_function(model, other, 1e-12);
  }
}

}  // namespace
}  // namespace foldgrad::testing
