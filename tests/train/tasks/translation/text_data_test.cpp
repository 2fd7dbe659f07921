#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/data/lines.h"
#include "train/tasks/translation/bpe.h"
#include "train/tasks/translation/dictionary.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

class BpeCodes : public FileTest {
 protected:
  Bpe bpe(const std::string& codes) {
    write("codes", codes);
    return Bpe(files_ / "codes");
  }
};
using DictionaryFiles = FileTest;
using ParallelTextFiles = FileTest;

// tests/train/tasks/translation/make_bpe_goldens.py made the cases with subword-nmt.
TEST_F(BpeCodes, SegmentsAsSubwordNmtDoes) {
  const json goldens = json::parse(std::ifstream(FOLDGRAD_SOURCE_DIR "/tests/golden/bpe.json"));
  ASSERT_EQ(goldens.size(), 2u);
  for (const json& golden : goldens) {
    Bpe codes = bpe(golden["codes"]);
    ASSERT_GE(golden["lines"].size(), 200u);
    for (int time = 0; time < 2; ++time)  // the second time, apply() takes the words from its cache
      for (std::size_t i = 0; i < golden["lines"].size(); ++i)
        EXPECT_EQ(codes.apply(golden["lines"][i]), golden["segmented"][i]) << golden["lines"][i];
  }
}

TEST_F(BpeCodes, WorkedByHand) {
  Bpe codes = bpe("#version: 0.2\nl o\nw e\nlo w</w>\nwe r</w>\n");
  EXPECT_EQ(codes.apply("low lower w"), "low lo@@ wer w");
  EXPECT_EQ(codes.apply("lowlow"), "lo@@ w@@ low");
  // If the codes list a pair twice, the first line counts: "l o" is merged before "o m". If the second line counted,
  // the result would be l@@ om@@ a.
  EXPECT_EQ(bpe("#version: 0.2\nl o\no m\nl o\n").apply("loma"), "lo@@ m@@ a");
}

TEST_F(BpeCodes, RemoveJoinsPieces) {
  EXPECT_EQ(remove_bpe("lo@@ w@@ low w  "), "lowlow w");
  EXPECT_EQ(remove_bpe("cut off@@"), "cut off");
  EXPECT_EQ(remove_bpe("@@@@ @@ x"), "@@x");
  EXPECT_EQ(remove_bpe("low \u00a0 lo@@\u3000\x1f\t"), "low \u00a0 lo@@");  // like Python's str.rstrip()
  EXPECT_EQ(remove_bpe("\u3000@@"), "");
}

TEST_F(BpeCodes, ErrorsNameFileAndLine) {
  const auto error = [&](const std::string& content) { return error_of<FileError>([&] { bpe(content); }); };
  EXPECT_EQ(error("#version: 0.2\na b\nc\n"), "@codes: line 3 must be two pieces separated by a space, got \"c\"");
  EXPECT_EQ(error("a b c\n"), "@codes: line 1 must be two pieces separated by a space, got \"a b c\"");
  EXPECT_EQ(error("#version: 0.3\n"), "@codes: the version must be 0.1 or 0.2, got \"0.3\"");
  EXPECT_EQ(error(""), "@codes: must have at least one line, got 0");
  EXPECT_EQ(message<std::invalid_argument>([&] { bpe("a b\n").apply("x\xFF"); }),
            "bpe: the line must be UTF-8, got \"x\\xff\"");
}

TEST_F(DictionaryFiles, NumbersAsFairseqGivesThem) {
  write("dict.txt", "the 12\nca@@ 5\nt 3\n");
  const Dictionary dictionary = Dictionary::read(files_ / "dict.txt");
  EXPECT_EQ(dictionary.size(), 8);
  EXPECT_EQ(dictionary.word(7), "madeupword0000");
  EXPECT_EQ(dictionary.encode(" the  ca@@ t dog "), (Ids{4, 5, 6, kUnk, kEos}));
  EXPECT_EQ(dictionary.encode(""), (Ids{kEos}));
  EXPECT_EQ(dictionary.decode({kBos, 4, kUnk, 6, kPad, kEos, 5}), "the <unk> t");
  EXPECT_EQ(dictionary.text(), "the 12\nca@@ 5\nt 3\nmadeupword0000 0\n");
  write("again.txt", dictionary.text());
  EXPECT_EQ(Dictionary::read(files_ / "again.txt").text(), dictionary.text());
}

// Some dictionaries contain SentencePiece's scores instead of counts. fairseq reads each score as an integer.
TEST_F(DictionaryFiles, CountsMayBeNegative) {
  write("dict.txt", "ie -0\np -1\nw -2\n");
  const Dictionary dictionary = Dictionary::read(files_ / "dict.txt");
  EXPECT_EQ(dictionary.encode("ie p w"), (Ids{4, 5, 6, kEos}));
  EXPECT_EQ(dictionary.text(), "ie 0\np -1\nw -2\nmadeupword0000 0\n");
  EXPECT_EQ(Dictionary::joined(dictionary, dictionary).text(), "ie 0\np -2\nw -4\nmadeupword0000 0\n");
}

TEST(Dictionary, OfLinesOrdersByCountThenWord) {
  const Dictionary dictionary = Dictionary::of_lines({"b a c", "c b", "b z", ""});
  EXPECT_EQ(dictionary.text(), "b 3\nc 2\na 1\nz 1\n");
  EXPECT_EQ(Dictionary::of_lines({"<unk> a"}).id("<unk>"), kUnk);
}

TEST_F(DictionaryFiles, ErrorsNameFileAndLine) {
  const auto error = [&](const std::string& content) {
    write("dict.txt", content);
    return error_of<FileError>([&] { Dictionary::read(files_ / "dict.txt"); });
  };
  EXPECT_EQ(error("a 1\nb\n"), "@dict.txt: line 2 must be a word, a space and its count, got \"b\"");
  for (const std::string line : {"a 1x", "a -", "a 99999999999999999999"})
    EXPECT_EQ(error(line + "\n"), "@dict.txt: line 1 must be a word, a space and its count, got \"" + line + "\"");
  EXPECT_EQ(error("a 1\na 2\n"), "@dict.txt: line 2: the word \"a\" is already in the dictionary");
  EXPECT_EQ(error("<pad> 1\n"), "@dict.txt: line 1: the word \"<pad>\" is already in the dictionary");
  const Dictionary dictionary = Dictionary::of_words({"a"});
  EXPECT_EQ(message<std::invalid_argument>([&] { dictionary.word(8); }), "dictionary: ids must be in [0, 8), got 8");
  const std::vector<std::string> twice{"a", "a"};
  EXPECT_EQ(message<std::invalid_argument>([&] { Dictionary::of_words(twice); }),
            "dictionary: each word must occur only once, got \"a\" twice");
}

TEST_F(ParallelTextFiles, ReadsBothSidesAndDropsALeadingByteOrderMark) {
  write("train.de", "eins\r\n\nd\xC3\xBC");
  write("train.en", "one\n\nthin\n");
  const ParallelText text = read_parallel_text(files_.path(), "train", "de", "en");
  EXPECT_EQ(text.source, (std::vector<std::string>{"eins", "", "d\xC3\xBC"}));
  EXPECT_EQ(text.target, (std::vector<std::string>{"one", "", "thin"}));
  write("a", "\ufeffein\r\n\ufeffzwei\n");
  EXPECT_EQ(read_lines(files_ / "a"), (std::vector<std::string>{"ein", "\ufeffzwei"}));
}

TEST_F(ParallelTextFiles, ErrorsNameFileAndLine) {
  const auto error = [&] {
    return error_of<FileError>([&] { read_parallel_text(files_.path(), "train", "de", "en"); });
  };
  write("train.de", "eins\nzwei\n");
  EXPECT_EQ(error(), "@train.en: cannot be opened: No such file or directory");
  write("train.en", "one\n");
  EXPECT_EQ(error(), "@train.en: must have as many lines as @train.de, which has 2, got 1");
  write("train.en", "one\ntw\xFFo\n");
  EXPECT_EQ(error(), "@train.en: line 2 must be UTF-8, got byte 0xff at byte 3 of the line");
  write("train.en", "one\n" + std::string(kLongestWord, 'a') + " b\n");
  EXPECT_EQ(error(), "no error");
  write("train.en", "one\nb\u3000" + std::string(kLongestWord + 1, 'a') + "\n");
  EXPECT_EQ(error(), "@train.en: line 2 must not contain a word of more than 16384 bytes");
  for (const char* name : {"train.de", "train.en"}) write(name, "");
  EXPECT_EQ(error(), "@train.de: must have at least one line, got 0");
}

}  // namespace
}  // namespace foldgrad::testing
