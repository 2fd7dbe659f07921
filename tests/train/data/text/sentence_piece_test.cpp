#include "train/data/text/sentence_piece.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/data/text/numbers.h"

namespace foldgrad::testing {
namespace {

class SentencePieceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sentence_piece_available()) return;
    EXPECT_EQ(message<std::runtime_error>([] { SentencePiece::read("none"); }),
              "sentence_piece: this build lacks SentencePiece; install libsentencepiece-dev and configure with "
              "FOLDGRAD_SENTENCEPIECE=ON");
    GTEST_SKIP() << "this build lacks SentencePiece";
  }
  const std::vector<std::string> lines_ = numbers::sample(numbers::Split::train, 500).source;
};

TEST_F(SentencePieceTest, TrainsEncodesAndDecodes) {
  for (const char* kind : {"unigram", "bpe"}) {
    const SentencePiece pieces = SentencePiece::train(lines_, {.vocabulary = 100, .kind = kind});
    EXPECT_EQ(pieces.size(), 100);
    for (const std::string& line : lines_) {
      const Ids ids = pieces.encode(line);
      ASSERT_EQ(ids.back(), kEos);
      ASSERT_EQ(std::count_if(ids.begin(), ids.end() - 1, [](std::int64_t id) { return id <= kUnk; }), 0) << line;
      ASSERT_EQ(pieces.decode(ids), line);
    }
    const Ids unknown = pieces.encode("好");
    EXPECT_EQ(std::count(unknown.begin(), unknown.end(), kUnk), 1);
  }
}

TEST_F(SentencePieceTest, TrainingRepeatsAndFilesKeepTheModel) {
  const SentencePiece pieces = SentencePiece::train(lines_, {.vocabulary = 80});
  EXPECT_EQ(SentencePiece::train(lines_, {.vocabulary = 80}).model(), pieces.model());
  const TemporaryDirectory directory;
  write_bytes(directory / "a.model", pieces.model());
  EXPECT_EQ(SentencePiece::read(directory / "a.model").encode(lines_[0]), pieces.encode(lines_[0]));
}

TEST_F(SentencePieceTest, ErrorsNameTheReason) {
  EXPECT_EQ(message<std::invalid_argument>([&] { SentencePiece::train(lines_, {.kind = "words"}); }),
            "sentence_piece: the kind must be unigram or bpe, got \"words\"");
  EXPECT_EQ(message<std::invalid_argument>([&] { SentencePiece::train({}, {}); }),
            "sentence_piece: there must be at least one line, got 0");
  EXPECT_EQ(message<std::invalid_argument>([&] {
              SentencePiece::train({" ", "", "\t"}, {});
            }),
            "sentence_piece: the text must have words in lines of at most 4192 bytes, got 3 lines without any");
  const std::string longest(4193, 'a');
  // The library drops these or makes white space of them, and would then end the process.
  for (const char* line :
       {"\u200b", "\u200d\u2581", "\x1f", "\x7f", "\u3000", "\u2581", "\ufeff", "\ufffd", longest.c_str()})
    EXPECT_EQ(message<std::invalid_argument>([&] {
                SentencePiece::train({line, " "}, {});
              }),
              "sentence_piece: the text must have words in lines of at most 4192 bytes, got 2 lines without any");
  const std::string too_large =
      message<std::invalid_argument>([&] { SentencePiece::train(lines_, {.vocabulary = 100'000}); });
  EXPECT_EQ(too_large.substr(0, 49), "sentence_piece: Vocabulary size too high (100000)") << too_large;
  const TemporaryDirectory directory;
  write_bytes(directory / "a.model", "no model");
  EXPECT_EQ(message<FileError>([&] { SentencePiece::read(directory / "a.model"); }),
            directory / "a.model" + ": must be a model of SentencePiece");
  const SentencePiece pieces = SentencePiece::train(lines_, {.vocabulary = 80});
  EXPECT_EQ(message<std::invalid_argument>([&] { pieces.decode({80}); }),
            "sentence_piece: ids must be in [0, 80), got 80");
}

}  // namespace
}  // namespace foldgrad::testing
