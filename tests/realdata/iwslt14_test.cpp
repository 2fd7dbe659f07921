// Tests with IWSLT14, German to English, as fairseq's prepare-iwslt14.sh leaves it before byte pair encoding.
#include <algorithm>

#include "tests/realdata/real_data.h"
#include "train/data/lines.h"
#include "train/tasks/translation/batches.h"
#include "train/tasks/translation/bleu.h"
#include "train/tasks/translation/bpe.h"
#include "train/tasks/translation/dictionary.h"

namespace foldgrad::testing {
namespace {

class Iwslt14 : public ::testing::Test {
 protected:
  void SetUp() override { FOLDGRAD_SKIP_WITHOUT(data_, "iwslt14"); }
  RealData data_{"iwslt14", "iwslt14-part.tar.xz"};
};

// Returns the FNV-1a hash of lines and their line ends. The tests compare hashes, since the output of subword-nmt 0.3.8
// may not be stored here.
std::uint64_t digest(const std::vector<std::string>& lines) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const std::string& line : lines)
    for (const char c : line + '\n') h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

// The token counts are from fairseq's preprocessing log. The digests and the counts of unknown tokens were computed
// with subword-nmt and Python.
TEST_F(Iwslt14, BpeAndDictionariesGiveThePublishedNumbers) {
  struct Side {
    std::uint64_t digest;
    std::int64_t tokens, unknown;
  };
  const std::tuple<const char*, std::size_t, Side, Side> cases[] = {
      {"valid", 7283, {0x22d4f6c32ba1db65u, 182592, 35}, {0xd32c4c1c1c756f87u, 178622, 8}},
      {"test", 6750, {0x21b7f46eba3fc378u, 161838, 103}, {0x87f0413de8ee50f5u, 156928, 14}},
  };
  Bpe bpe(data_ / "fairseq.bpe10k.code");
  const Dictionary de = Dictionary::read(data_ / "fairseq.dict.de.txt"),
                   en = Dictionary::read(data_ / "fairseq.dict.en.txt");
  EXPECT_EQ(de.size(), 8848);
  EXPECT_EQ(en.size(), 6632);
  for (const auto& [name, lines, want_de, want_en] : cases) {
    const ParallelText text = read_parallel_text(data_.path(), name, "de", "en");
    ASSERT_EQ(text.source.size(), lines);
    const auto check = [&](const std::vector<std::string>& raw, const Dictionary& dictionary, const Side& want) {
      std::vector<std::string> pieces;
      std::int64_t tokens = 0, unknown = 0;
      for (const std::string& line : raw) {
        pieces.push_back(bpe.apply(line));
        const Ids ids = dictionary.encode(pieces.back());
        tokens += std::int64_t(ids.size());
        unknown += std::count(ids.begin(), ids.end(), kUnk);
        ASSERT_EQ(remove_bpe(pieces.back()), line);
      }
      EXPECT_EQ(digest(pieces), want.digest) << name;
      EXPECT_EQ(tokens, want.tokens) << name;
      EXPECT_EQ(unknown, want.unknown) << name;
    };
    check(text.source, de, want_de);
    check(text.target, en, want_en);
  }
}

// A batch has about 4096 tokens on its longer side, including padding. Less than 20 % of all tokens are padding, so
// sentences are sorted by length.
TEST_F(Iwslt14, BatchesHoldMostlyTokens) {
  Bpe bpe(data_ / "fairseq.bpe10k.code");
  const Dictionary de = Dictionary::read(data_ / "fairseq.dict.de.txt"),
                   en = Dictionary::read(data_ / "fairseq.dict.en.txt");
  const ParallelText text = read_parallel_text(data_.path(), "valid", "de", "en");
  EncodedPairs pairs;
  for (std::size_t i = 0; i < text.source.size(); ++i) {
    pairs.source.push_back(de.encode(bpe.apply(text.source[i])));
    pairs.target.push_back(en.encode(bpe.apply(text.target[i])));
  }
  Batches batches(pairs, {.max_tokens = 4096});
  std::int64_t tokens = 0, entries = 0, rows = 0;
  for (std::int64_t i = batches.per_epoch(); i > 0; --i) {
    const Batch batch = batches.next();
    tokens += batch.source_tokens() + batch.target_tokens();
    const TranslationBatch& s = batch.sentences;
    entries += std::int64_t(batch.pairs.size()) * (s.source.rows.longest() + s.input.rows.longest());
    rows += std::int64_t(batch.pairs.size());
  }
  EXPECT_EQ(tokens, 182592 + 178622);
  EXPECT_EQ(rows, 7283);
  EXPECT_GT(double(tokens) / double(entries), 0.8);
}

// Compares the test set with itself, and with itself shifted by one line.
TEST_F(Iwslt14, ScoresOfAWholeTestSet) {
  const std::vector<std::string> lines = read_lines(data_ / "test.en");
  EXPECT_EQ(multi_bleu(lines, lines).text,
            "BLEU = 100.00, 100.0/100.0/100.0/100.0 (BP=1.000, ratio=1.000, hyp_len=131156, ref_len=131156)");
  std::vector<std::string> moved(lines.begin() + 1, lines.end());
  moved.push_back(lines[0]);
  EXPECT_EQ(sacre_bleu(moved, lines).text,
            "BLEU = 4.40 21.4/5.0/2.6/1.3 (BP = 1.000 ratio = 1.000 hyp_len = 141115 ref_len = 141115)");
  EXPECT_EQ(chrf(moved, lines).text, "chrF2 = 18.40");
}

}  // namespace
}  // namespace foldgrad::testing
