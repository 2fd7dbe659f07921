// Tests the configurations of Multi30k and IWSLT14 on the texts of these data sets.
#include <algorithm>

#include "tests/realdata/real_data.h"
#include "train/tasks/translation/data.h"

namespace foldgrad::testing {
namespace {

std::int64_t unknown(const std::vector<Ids>& all) {
  std::int64_t count = 0;
  for (const Ids& ids : all) count += std::count(ids.begin(), ids.end(), kUnk);
  return count;
}

ExperimentConfig config_of(const std::string& name) { return read_config(FOLDGRAD_SOURCE_DIR "/configs/" + name); }

TEST(Experiments, Multi30k) {
  const RealData files("multi30k", "multi30k.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "multi30k");
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const ExperimentConfig config = config_of("multi30k-un.toml");
  const ExperimentData data = read_data(config, files.path());
  EXPECT_EQ(data.train.pairs.source.size(), 29000u);
  EXPECT_EQ(data.valid.pairs.source.size(), 1014u);
  EXPECT_EQ(data.vocabulary.source_size(), 6000);
  EXPECT_EQ(unknown(data.train.pairs.source) + unknown(data.train.pairs.target), 0);
  // Another version of SentencePiece may choose other pieces, but about the same number of them.
  std::size_t tokens = 0;
  for (const Ids& ids : data.train.pairs.target) tokens += ids.size();
  EXPECT_GT(tokens, 29000u * 12);
  EXPECT_LT(tokens, 29000u * 18);
  const ParallelText test = read_text(config.data.as<DataConfig>(), files.path(), config.data.as<DataConfig>().test);
  ASSERT_EQ(test.source.size(), 1000u);
  const EncodedPairs encoded = encode(data.vocabulary, test);
  std::int64_t same = 0;
  for (std::size_t i = 0; i < 1000; ++i) same += data.vocabulary.decode_target(encoded.target[i]) == test.target[i];
  EXPECT_GE(same, 980);  // encoding drops leading, trailing and doubled spaces
}

// fairseq's joined dictionary of all 160,239 training pairs has 10,152 rows.
TEST(Experiments, Iwslt14) {
  const RealData files("iwslt14", "iwslt14-part.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "iwslt14");
  const ExperimentConfig config = config_of("iwslt14-cpu-un.toml");
  const ExperimentData data = read_data(config, files.path());
  EXPECT_EQ(data.vocabulary.source_size(), 10152);
  EXPECT_EQ(data.vocabulary.target_size(), 10152);
  EXPECT_EQ(data.valid.pairs.source.size(), 500u);
  EXPECT_GE(data.train.pairs.source.size(), 67836u);
  EXPECT_EQ(unknown(data.train.pairs.source) + unknown(data.train.pairs.target), 0);
  EXPECT_EQ(data.vocabulary.decode_target(data.valid.pairs.target[7]), data.valid.text.target[7]);
}

}  // namespace
}  // namespace foldgrad::testing
