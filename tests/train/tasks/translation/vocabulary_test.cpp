// Tests translation vocabularies and SentencePiece.
#include "train/tasks/translation/vocabulary.h"

#include <algorithm>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/tasks/translation/numbers.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad::testing {
namespace {

std::int64_t unknown(const Ids& ids) { return std::count(ids.begin(), ids.end(), kUnk); }

Vocabulary words(bool lowercase = false) {
  return Vocabulary::words(Dictionary::of_words({"ein", "haus", "Haus"}), Dictionary::of_words({"a", "house", "big"}),
                           lowercase);
}

class VocabularyFiles : public FileTest {
 protected:
  Vocabulary bpe() const {
    write("my.codes", "#version: 0.2\nl o\nw e\nlo w</w>\nwe r</w>\n");
    const Dictionary both = Dictionary::of_words({"low", "lo@@", "wer", "w"});
    return Vocabulary::bpe(Bpe(files_ / "my.codes"), both, both, true);
  }
};

TEST(Vocabulary, NumbersNeedNoFile) {
  const Vocabulary v = Vocabulary::numbers();
  const Ids ids = v.encode_source("einundzwanzig Millionen");
  EXPECT_EQ(ids.size(), 6u);  // ein, und, zwan, zig, Millionen and the end token
  EXPECT_EQ(unknown(ids), 0);
  EXPECT_EQ(v.decode_target(v.encode_target("on the twenty-first of May")), "on the twenty-first of May");
  EXPECT_EQ(v.source_size(), v.target_size());
}

TEST(Vocabulary, WordsHaveTwoDictionaries) {
  const Vocabulary v = words();
  EXPECT_EQ(v.encode_source("ein Haus"), (Ids{4, 6, kEos}));
  EXPECT_EQ(v.encode_target("a haus"), (Ids{4, kUnk, kEos}));
  EXPECT_EQ(v.decode_target({6, 5, kUnk, kEos, 4}), "big house <unk>");
  EXPECT_EQ(v.encode_source(""), (Ids{kEos}));
  EXPECT_EQ(v.normalized("Haus"), "Haus");
}

TEST(Vocabulary, SmallLettersComeFirst) {
  const Vocabulary v = words(true);
  EXPECT_EQ(v.encode_source("EIN Haus"), (Ids{4, 5, kEos}));
  EXPECT_EQ(v.normalized("\u00c4PFEL"), "\u00e4pfel");
}

TEST_F(VocabularyFiles, BpeIsUndone) {
  const Vocabulary v = bpe();
  EXPECT_EQ(v.encode_source("Low lower"), (Ids{4, 5, 6, kEos}));
  EXPECT_EQ(v.decode_target({5, 6, 4, kEos}), "lower low");
  EXPECT_EQ(unknown(v.encode_source("low \u597d")), 1);
}

void expect_same(const Vocabulary& a, const Vocabulary& b, const std::vector<std::string>& lines) {
  EXPECT_EQ(a.kind(), b.kind());
  EXPECT_EQ(a.source_size(), b.source_size());
  EXPECT_EQ(a.target_size(), b.target_size());
  for (const std::string& line : lines) {
    EXPECT_EQ(a.normalized(line), b.normalized(line));
    EXPECT_EQ(a.encode_source(line), b.encode_source(line));
    EXPECT_EQ(a.encode_target(line), b.encode_target(line));
    EXPECT_EQ(a.decode_target(a.encode_target(line)), b.decode_target(b.encode_target(line)));
  }
}

TEST_F(VocabularyFiles, LoadGivesWhatWasSaved) {
  const auto again = [&](const Vocabulary& v) {
    const std::string directory = files_ / "deep/" + v.kind();
    v.save(directory);
    return Vocabulary::load(directory);
  };
  const std::vector<std::string> lines{"", "ein Haus", "A big  house", "low lower", "einundzwanzig", "\u597d x"};
  expect_same(words(), again(words()), lines);
  expect_same(words(true), again(words(true)), lines);
  expect_same(bpe(), again(bpe()), lines);
  expect_same(Vocabulary::numbers(), again(Vocabulary::numbers()), lines);
  EXPECT_TRUE(exists("deep/bpe/codes"));
  EXPECT_EQ(bytes("deep/words/dict.source.txt"), "ein 0\nhaus 0\nHaus 0\nmadeupword0000 0\n");
}

TEST_F(VocabularyFiles, SentencePieceIsUndoneSavedAndLoaded) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const std::vector<std::string> lines = numbers::sample(numbers::Split::train, 300).source;
  const Vocabulary v = Vocabulary::sentence_piece(SentencePiece::train(lines, 100), false);
  EXPECT_EQ(v.source_size(), 100);
  EXPECT_EQ(v.decode_target(v.encode_target(lines[0])), lines[0]);
  v.save(files_.path());
  expect_same(v, Vocabulary::load(files_.path()), {lines[0], lines[1], "\u597d"});
}

TEST_F(VocabularyFiles, MissingAndMalformedFilesAreNamed) {
  const auto error = [&] { return error_of<FileError>([&] { Vocabulary::load(files_.path()); }); };
  const auto error_with = [&](const std::string& json) {
    write("vocabulary.json", json);
    return error();
  };
  EXPECT_EQ(error(), "@vocabulary.json: cannot be opened: No such file or directory");
  EXPECT_EQ(error_with("[]"), "@vocabulary.json: must be a JSON object");
  EXPECT_EQ(error_with("{}"), "@vocabulary.json: \"format\" must be 1, got nothing");
  EXPECT_EQ(error_with(R"({"format": 2})"), "@vocabulary.json: \"format\" must be 1, got 2");
  EXPECT_EQ(error_with(R"({"format": 1, "kind": "wordpiece"})"),
            "@vocabulary.json: \"kind\" must be one of numbers, words, bpe, sentencepiece, got \"wordpiece\"");
  EXPECT_EQ(error_with(R"({"format": 1, "kind": "bpe", "lowercase": 1})"),
            "@vocabulary.json: \"lowercase\" must be true or false, got 1");
  bpe().save(files_.path());
  std::filesystem::remove(files_ / "codes");
  EXPECT_EQ(error(), "@codes: cannot be opened: No such file or directory");
  EXPECT_TRUE(begins(error_of<FileError>([&] { words().save(files_ / "vocabulary.json"); }),
                     "@vocabulary.json: cannot be created"));
}

TEST(Vocabulary, LinesMustBeUtf8) {
  for (const Vocabulary& v : {words(), Vocabulary::numbers()})
    EXPECT_EQ(message<std::invalid_argument>([&] { v.encode_source("x\xff"); }),
              "vocabulary: the line must be UTF-8, got byte 0xff at offset 1");
}

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
  const SentencePiece pieces = SentencePiece::train(lines_, 100);
  EXPECT_EQ(pieces.size(), 100);
  EXPECT_EQ(SentencePiece::train(lines_, 100).model(), pieces.model());
  for (const std::string& line : lines_) {
    const Ids ids = pieces.encode(line);
    ASSERT_EQ(ids.back(), kEos);
    ASSERT_EQ(std::count_if(ids.begin(), ids.end() - 1, [](std::int64_t id) { return id <= kUnk; }), 0) << line;
    ASSERT_EQ(pieces.decode(ids), line);
  }
  EXPECT_EQ(unknown(pieces.encode("好")), 1);
  EXPECT_EQ(message<std::invalid_argument>([&] { pieces.decode({100}); }),
            "sentence_piece: ids must be in [0, 100), got 100");
}

TEST_F(SentencePieceTest, ErrorsNameTheReason) {
  EXPECT_EQ(message<std::invalid_argument>([] { SentencePiece::train({}, {}); }),
            "sentence_piece: there must be at least one line, got 0");
  const auto error = [](const std::vector<std::string>& lines) {
    return message<std::invalid_argument>([&] { SentencePiece::train(lines, {}); });
  };
  const std::string must =
      "sentence_piece: at least one line of at most 4192 bytes must contain a word, but none of the ";
  EXPECT_EQ(error({" ", "", "\t"}), must + "3 lines does");
  const std::string longest(4193, 'a');
  // SentencePiece drops these characters or turns them into white space, and skips the long line. If it finds no word
  // at all, it ends the process.
  for (const char* line :
       {"\u200b", "\u200d\u2581", "\x1f", "\x7f", "\u3000", "\u2581", "\ufeff", "\ufffd", longest.c_str()})
    EXPECT_EQ(error({line, " "}), must + "2 lines does");
  const auto refusal = [&](std::int64_t pieces) {
    return message<std::invalid_argument>([&] { SentencePiece::train(lines_, pieces); });
  };
  EXPECT_TRUE(begins(refusal(100'000), "sentence_piece: the vocabulary must have at most "));
  EXPECT_TRUE(refusal(100'000).ends_with(" pieces for this text, got 100000"));
  EXPECT_TRUE(begins(refusal(5), "sentence_piece: the vocabulary must have at least "));
  EXPECT_TRUE(refusal(5).ends_with(" pieces for the characters of this text, got 5"));
}

}  // namespace
}  // namespace foldgrad::testing
