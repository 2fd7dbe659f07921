#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/data/lines.h"
#include "train/data/text/bpe.h"
#include "train/data/text/dictionary.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

// Made by tests/train/data/text/make_bpe_goldens.py with subword-nmt.
TEST(Bpe, SegmentsAsSubwordNmtDoes) {
  const TemporaryDirectory directory;
  const json goldens = json::parse(std::ifstream(FOLDGRAD_SOURCE_DIR "/tests/golden/bpe.json"));
  ASSERT_EQ(goldens.size(), 2u);
  for (const json& golden : goldens) {
    write_bytes(directory / "codes", golden["codes"]);
    Bpe bpe(directory / "codes");
    ASSERT_GE(golden["lines"].size(), 200u);
    for (int time = 0; time < 2; ++time)  // the second time words are remembered
      for (std::size_t i = 0; i < golden["lines"].size(); ++i)
        EXPECT_EQ(bpe.apply(golden["lines"][i]), golden["segmented"][i]) << golden["lines"][i];
  }
}

TEST(Bpe, WorkedByHand) {
  const TemporaryDirectory directory;
  write_bytes(directory / "codes", "#version: 0.2\nl o\nw e\nlo w</w>\nwe r</w>\n");
  Bpe bpe(directory / "codes");
  EXPECT_EQ(bpe.apply("low lower w"), "low lo@@ wer w");
  EXPECT_EQ(bpe.apply("lowlow"), "lo@@ w@@ low");
}

TEST(Bpe, OfAPairThatComesTwiceTheFirstPlaceCounts) {
  const TemporaryDirectory directory;
  write_bytes(directory / "codes", "#version: 0.2\nl o\no m\nl o\n");
  EXPECT_EQ(Bpe(directory / "codes").apply("loma"), "lo@@ m@@ a");  // at its second it would be l@@ om@@ a
}

TEST(Bpe, RemoveJoinsPieces) {
  EXPECT_EQ(remove_bpe("lo@@ w@@ low w  "), "lowlow w");
  EXPECT_EQ(remove_bpe("cut off@@"), "cut off");
  EXPECT_EQ(remove_bpe("@@@@ @@ x"), "@@x");
}

TEST(Bpe, ErrorsNameFileAndLine) {
  const TemporaryDirectory directory;
  const std::string path = directory / "codes";
  const auto error_of = [&](const std::string& content) {
    write_bytes(path, content);
    return message<FileError>([&] { Bpe bpe(path); });
  };
  EXPECT_EQ(error_of("#version: 0.2\na b\nc\n"), path + ": line 3 must be two pieces with a space between, got \"c\"");
  EXPECT_EQ(error_of("a b c\n"), path + ": line 1 must be two pieces with a space between, got \"a b c\"");
  EXPECT_EQ(error_of("#version: 0.3\n"), path + ": the version must be 0.1 or 0.2, got \"0.3\"");
  EXPECT_EQ(error_of(""), path + ": must have at least one line, got 0");
  write_bytes(path, "a b\n");
  EXPECT_EQ(message<std::invalid_argument>([&] { Bpe(path).apply("x\xFF"); }),
            "bpe: the line must be UTF-8, got \"x\\xff\"");
}

TEST(Dictionary, NumbersAsFairseqGivesThem) {
  const TemporaryDirectory directory;
  write_bytes(directory / "dict.txt", "the 12\nca@@ 5\nt 3\n");
  const Dictionary dictionary = Dictionary::read(directory / "dict.txt");
  EXPECT_EQ(dictionary.size(), 8);
  EXPECT_EQ(dictionary.word(7), "madeupword0000");
  EXPECT_EQ(dictionary.encode(" the  ca@@ t dog "), (Ids{4, 5, 6, kUnk, kEos}));
  EXPECT_EQ(dictionary.encode(""), (Ids{kEos}));
  EXPECT_EQ(dictionary.decode({kBos, 4, kUnk, 6, kPad, kEos, 5}), "the <unk> t");
  EXPECT_EQ(dictionary.text(), "the 12\nca@@ 5\nt 3\nmadeupword0000 0\n");
  write_bytes(directory / "again.txt", dictionary.text());
  EXPECT_EQ(Dictionary::read(directory / "again.txt").text(), dictionary.text());
}

TEST(Dictionary, OfLinesOrdersByCountThenWord) {
  const Dictionary dictionary = Dictionary::of_lines({{"b a c", "c b"}, {"b z", ""}});
  EXPECT_EQ(dictionary.text(), "b 3\nc 2\na 1\nz 1\n");
  EXPECT_EQ(Dictionary::of_lines({{"<unk> a"}}).id("<unk>"), kUnk);
}

TEST(Dictionary, ErrorsNameFileAndLine) {
  const TemporaryDirectory directory;
  const std::string path = directory / "dict.txt";
  const auto error_of = [&](const std::string& content) {
    write_bytes(path, content);
    return message<FileError>([&] { Dictionary::read(path); });
  };
  EXPECT_EQ(error_of("a 1\nb\n"), path + ": line 2 must be a word, a space and its count, got \"b\"");
  EXPECT_EQ(error_of("a 1x\n"), path + ": line 1 must be a word, a space and its count, got \"a 1x\"");
  EXPECT_EQ(error_of("a -1\n"), path + ": line 1 must be a word, a space and its count, got \"a -1\"");
  EXPECT_EQ(error_of("a 99999999999999999999\n"),
            path + ": line 1 must be a word, a space and its count, got \"a 99999999999999999999\"");
  EXPECT_EQ(error_of("a 1\na 2\n"), path + ": line 2: the word \"a\" is there already");
  EXPECT_EQ(error_of("<pad> 1\n"), path + ": line 1: the word \"<pad>\" is there already");
  const Dictionary dictionary = Dictionary::of_words({"a"});
  EXPECT_EQ(message<std::invalid_argument>([&] { dictionary.word(8); }), "dictionary: ids must be in [0, 8), got 8");
  EXPECT_EQ(message<std::invalid_argument>([] {
              Dictionary::of_words({"a", "a"});
            }),
            "dictionary: each word must come once, got \"a\" again");
}

TEST(ParallelText, ReadsBothSides) {
  const TemporaryDirectory directory;
  write_bytes(directory / "train.de", "eins\r\n\nd\xC3\xBC");
  write_bytes(directory / "train.en", "one\n\nthin\n");
  const ParallelText text = read_parallel_text(directory.path(), "train", "de", "en");
  EXPECT_EQ(text.source, (std::vector<std::string>{"eins", "", "d\xC3\xBC"}));
  EXPECT_EQ(text.target, (std::vector<std::string>{"one", "", "thin"}));
}

TEST(ParallelText, AByteOrderMarkIsNoText) {
  const TemporaryDirectory directory;
  write_bytes(directory / "a",
              "\xef\xbb\xbf"
              "ein\r\n\xef\xbb\xbf"
              "zwei\n");
  EXPECT_EQ(read_lines(directory / "a"), (std::vector<std::string>{"ein", "\ufeffzwei"}));
}

TEST(ParallelText, ErrorsNameFileAndLine) {
  const TemporaryDirectory directory;
  const std::string de = directory / "train.de", en = directory / "train.en";
  const auto error = [&] {
    return message<FileError>([&] { read_parallel_text(directory.path(), "train", "de", "en"); });
  };
  write_bytes(de, "eins\nzwei\n");
  EXPECT_EQ(error(), en + ": cannot be opened: No such file or directory");
  write_bytes(en, "one\n");
  EXPECT_EQ(error(), en + ": must have as many lines as " + de + ", which has 2, got 1");
  write_bytes(en, "one\ntw\xFFo\n");
  EXPECT_EQ(error(), en + ": line 2 must be UTF-8, got byte 0xff as its byte 3");
  write_bytes(de, "");
  write_bytes(en, "");
  EXPECT_EQ(error(), de + ": must have at least one line, got 0");
}

}  // namespace
}  // namespace foldgrad::testing
