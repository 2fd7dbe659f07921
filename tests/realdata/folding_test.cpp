// Tests that a trained model and its folded form give the same translation for at least 999 of the 1,000 test sentences
// of Multi30k. $FOLDGRAD_CHECKPOINT may name a model, checkpoint or run that was trained on Multi30k; otherwise the
// test trains a small model.
#include <set>

#include "models/fold/model.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/realdata/real_data.h"
#include "tests/train/tiny_training.h"
#include "train/commands/load_model_as.h"
#include "train/loop/trainer.h"
#include "train/runs/setup.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {
namespace {

struct Trained {
  std::unique_ptr<Transformer> model;
  std::vector<Ids> sources;  // the test sentences
};

// Trains a small model on Multi30k, which takes about twelve seconds on one core.
Trained train_briefly(const std::string& directory) {
  const ExperimentConfig config = read_config(
      FOLDGRAD_SOURCE_DIR "/configs/multi30k-un.toml",
      {"model.width=64", "model.ffn_width=128", "model.heads=2", "model.encoder_layers=2", "model.decoder_layers=2",
       "norm.un.warmup=50", "train.warmup=75", "train.lr=5e-3", "data.vocabulary=2000"});
  const ExperimentData data = read_data(config, directory);
  TransformerConfig model = config.model.as<TransformerConfig>();
  model.source_vocabulary = data.vocabulary.source_size(), model.target_vocabulary = data.vocabulary.target_size();
  model.pad = kPad;
  Trained trained{
      std::make_unique<Transformer>(model, config.train.seed),
      encode(data.vocabulary, read_text(config.data.as<DataConfig>(), directory, config.data.as<DataConfig>().test))
          .source};
  Optimizer optimizer(optimizer_rule(config.train), {{.parameters = trained.model->parameters()}});
  const Schedule schedule(schedule_options(config.train));
  Batches batches(data.train.pairs, {.max_tokens = config.data.as<DataConfig>().max_tokens});
  BatchTask task(*trained.model, batches);
  Trainer trainer(task, optimizer, schedule, config.train);
  for (int step = 0; step < 150; ++step) trainer.step();
  EXPECT_LT(trainer.report().loss, 6.0);  // an untrained model has log 2000 = 7.6
  return trained;
}

Trained load_checkpoint(const std::string& checkpoint, const std::string& directory) {
  Trained trained{load_transformer(checkpoint), {}};
  const Vocabulary vocabulary = load_vocabulary(find_model_directory(checkpoint), trained.model->config());
  const ExperimentConfig config = read_config(FOLDGRAD_SOURCE_DIR "/configs/multi30k-un.toml");
  trained.sources =
      encode(vocabulary, read_text(config.data.as<DataConfig>(), directory, config.data.as<DataConfig>().test)).source;
  return trained;
}

TEST(Folding, TranslatesATestSetAlike) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "training takes too long in this build";
#endif
  const RealData files("multi30k", "multi30k.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "multi30k");
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const char* checkpoint = std::getenv("FOLDGRAD_CHECKPOINT");
  const auto [model, sources] = checkpoint ? load_checkpoint(checkpoint, files.path()) : train_briefly(files.path());
  ASSERT_EQ(sources.size(), 1000u);
  const FoldedModel folded = fold(*model, {.tied = FoldOptions::Tied::untie});
  ASSERT_EQ(transformer_of(folded).config().normalizer, "none");
  ASSERT_TRUE(transformer_of(folded).config().normalizer_at.empty());
  for (const std::int64_t beam : {1, 5}) {
    const DecodingOptions decoding{.beam = beam};
    const auto want = best_hypotheses(InferenceTransformer(*model), sources, decoding),
               got = best_hypotheses(InferenceTransformer(transformer_of(folded)), sources, decoding);
    std::size_t same = 0;
    std::set<Ids> different;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      same += got[i].ids == want[i].ids;
      different.insert(want[i].ids);
    }
    RecordProperty("same_with_beam_" + std::to_string(beam), int(same));
    EXPECT_GE(same, 999u) << "beam " << beam;
    EXPECT_GE(different.size(), 200u) << "too many translations are the same sentence";
  }
}

}  // namespace
}  // namespace foldgrad::testing
