// Tests on IWSLT14, German to English, in the state before the byte pair encoding of fairseq's prepare-iwslt14.sh.
#include <algorithm>

#include "tests/realdata/real_data.h"
#include "train/data/lines.h"
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

}  // namespace
}  // namespace foldgrad::testing
