#include "train/tasks/validation_examples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/files/temporary_directory.h"
#include "tests/harness/compare.h"
#include "tests/models/transformer/tiny_translation.h"
#include "train/analyses/layer_outputs.h"
#include "train/data/text/vocabulary.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {
namespace {

// Padding, which a sentence has in some batches and in others not, changes nothing of what a layer is compared by.
TEST(ValidationExamples, OfTranslationAreTheSameInAnyBatch) {
  const TemporaryDirectory files;
  const Vocabulary vocabulary = Vocabulary::numbers();
  vocabulary.save(files / "vocabulary");
  TransformerConfig sizes = tiny_config("ln");
  sizes.source_vocabulary = vocabulary.source_size(), sizes.target_vocabulary = vocabulary.target_size();
  sizes.share_embeddings = "decoder", sizes.max_positions = 64;
  Transformer model(sizes, 3, DType::f64);
  ExperimentConfig config;
  config.data.task = TextTask::numbers;
  const ValidationExamples examples = family_of(model).task->validation_examples(model, config, "", files.path());
  EXPECT_NE(examples.digest({0, 1}), examples.digest({1, 0}));

  const std::vector<std::int64_t> batch = {0, 1, 2, 3};
  const NamedTensors inputs = examples.inputs(batch);
  for (const char* mask : {"source_mask", "input_mask"})
    EXPECT_GT(std::ranges::count(inputs.at(mask).values<std::uint8_t>(), 0), 0) << mask << ": there must be padding";
  const std::vector<LayerOutput> together = layer_outputs(model, inputs, DType::f64);
  ASSERT_FALSE(together.empty());
  for (const std::int64_t i : batch) {
    const NamedTensors one = examples.inputs({i});
    const std::vector<LayerOutput> alone = layer_outputs(model, one, DType::f64);
    for (std::size_t k = 0; k < alone.size(); ++k) {
      const std::string& layer = alone[k].layer;
      const Tensor want = mean_over_tokens(alone[k].values, one.at(examples.mask(layer)));
      const Tensor got = mean_over_tokens(together[k].values, inputs.at(examples.mask(layer))).slice(i, i + 1);
      EXPECT_TRUE(close(got, want, 1e-12)) << layer;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
