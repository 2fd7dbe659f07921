// Tests text vocabularies, and which text [data] in a configuration selects.
#include <algorithm>
#include <ctime>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/harness/properties.h"
#include "train/system/digest.h"
#include "train/system/unicode.h"
#include "train/tasks/language/data.h"

namespace foldgrad::testing {
namespace {

const std::string kText = "das alte Haus\n  zwei\tl\u00f6cher \n\nein haus am haus\n";

TextVocabulary pieces() { return TextVocabulary::bpe(kText, 280); }

// Draws difficult text: white space and line ends of all kinds, NUL, a byte order mark, the replacement character, and
// characters of one to four bytes. It never contains U+2581, which SentencePiece uses for a space.
std::string any_text() {
  const std::vector<std::uint32_t> hard{'a', 's', 'u', 'h', ' ', '\n', '\r', '\t', 0, 0xe9, 0xfffd, 0xfeff, 0x2028};
  const auto character =
      rc::gen::weightedOneOf<std::uint32_t>({{3, rc::gen::elementOf(hard)},
                                             {1, rc::gen::inRange<std::uint32_t>(1, 0xd800)},
                                             {1, rc::gen::inRange<std::uint32_t>(0xe000, 0x110000)}});
  std::u32string text;
  for (const std::uint32_t c : *rc::gen::container<std::vector<std::uint32_t>>(character))
    if (c != 0x2581) text += char32_t(c);
  return encode_utf8(text);
}

TEST(TextVocabulary, CharactersAreNumberedByTheirCodePointsBehindTheUnknown) {
  const TextVocabulary v = TextVocabulary::characters("b\u00e9 a\nb");
  EXPECT_EQ(v.size(), 6);
  EXPECT_STREQ(v.kind(), "characters");
  EXPECT_EQ(v.encode("\n ab\u00e9"), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(v.encode("Za\U0001f600"), (Ids{0, 3, 0}));
  EXPECT_EQ(v.decode({3, 0, 5, 1}), "a\ufffd\u00e9\n");
  EXPECT_EQ(v.encode(""), Ids());
  EXPECT_TRUE(v.has("\u00e9"));
  EXPECT_FALSE(v.has("Z") || v.has("\ufffd"));
  EXPECT_TRUE(TextVocabulary::characters("a\ufffd").has("\ufffd"));
}

RC_GTEST_PROP(TextVocabulary, OfCharactersWhatIsUnknownAloneIsLost, ()) {
  const std::string known = any_text(), text = any_text();
  const TextVocabulary v = TextVocabulary::characters(known);
  RC_ASSERT(v.decode(v.encode(known)) == known);
  std::u32string want = decode_utf8(text);
  for (char32_t& c : want)
    if (decode_utf8(known).find(c) == std::u32string::npos) c = 0xfffd;
  RC_ASSERT(v.decode(v.encode(text)) == encode_utf8(want));
}

RC_GTEST_PROP(TextVocabulary, OfBytePairsNothingIsLost, ()) {
  if (!sentence_piece_available()) return;
  static const TextVocabulary v = pieces();
  const std::string text = any_text();
  RC_ASSERT(v.decode(v.encode(text)) == text);
}

TEST(TextVocabulary, BytePairsAreShorterThanTheirBytesAndTheSameEachTime) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  const TextVocabulary v = pieces();
  EXPECT_EQ(v.size(), 280);
  EXPECT_STREQ(v.kind(), "bpe");
  EXPECT_LT(v.encode(kText).size(), kText.size());
  EXPECT_EQ(pieces().encode(kText), v.encode(kText));
  EXPECT_EQ(v.encode("\n"), Ids{4 + '\n'});  // pieces are learned from lines without line ends, so "\n" is a byte
  EXPECT_EQ(std::ranges::count(v.encode(kText), kEos), 0);
  EXPECT_EQ(v.decode({v.encode("d").at(0), kEos, v.encode("a").at(0)}), "da");  // kEos does not end a text
}

using TextVocabularyFiles = FileTest;

TEST_F(TextVocabularyFiles, LoadGivesWhatWasSaved) {
  std::vector<TextVocabulary> all{TextVocabulary::characters(kText)};
  if (sentence_piece_available()) all.push_back(pieces());
  for (const TextVocabulary& v : all) {
    const std::string directory = files_ / "deep/" + v.kind();
    v.save(directory);
    const TextVocabulary again = TextVocabulary::load(directory);
    EXPECT_STREQ(again.kind(), v.kind());
    EXPECT_EQ(again.size(), v.size());
    EXPECT_EQ(again.encode(kText + "\u597d"), v.encode(kText + "\u597d"));
    EXPECT_EQ(again.decode(v.encode(kText)), kText);
  }
}

TEST_F(TextVocabularyFiles, MissingAndMalformedFilesAreNamed) {
  const auto error = [&] { return error_of<FileError>([&] { TextVocabulary::load(files_.path()); }); };
  const auto error_with = [&](const std::string& json) {
    write("vocabulary.json", json);
    return error();
  };
  EXPECT_EQ(error(), "@vocabulary.json: cannot be opened: No such file or directory");
  for (const char* json : {"[]", "{}", R"({"format": 2, "kind": "characters", "characters": "a"})"})
    EXPECT_EQ(error_with(json), "@vocabulary.json: must be an object with \"format\" 1");
  EXPECT_EQ(error_with(R"({"format": 1, "kind": "words"})"), "@vocabulary.json: \"kind\" must be characters or bpe");
  for (const char* rest : {"", R"(, "characters": ["a"])"})
    EXPECT_EQ(error_with(R"({"format": 1, "kind": "characters")" + std::string(rest) + "}"),
              "@vocabulary.json: \"characters\" must be text");
  for (const char* characters : {"ba", "aa"})
    EXPECT_EQ(error_with(R"({"format": 1, "kind": "characters", "characters": ")" + std::string(characters) + "\"}"),
              "@vocabulary.json: \"characters\" must list distinct characters, ordered by code point");
  if (!sentence_piece_available()) return;
  EXPECT_EQ(error_with(R"({"format": 1, "kind": "bpe"})"),
            "@sentencepiece.model: cannot be opened: No such file or directory");
  write("sentencepiece.model", "cut off");
  EXPECT_EQ(error(), "@sentencepiece.model: must be a SentencePiece model");
}

TEST(TextVocabulary, RefusesBytesAndIdsThatAreNone) {
  const TextVocabulary v = TextVocabulary::characters("ab");
  for (const std::int64_t id : {-1, 3})
    EXPECT_EQ(message<std::invalid_argument>([&] {
                v.decode({0, id});
              }),
              "vocabulary: ids must be in [0, 3), got " + std::to_string(id));
  EXPECT_EQ(message<std::invalid_argument>([&] { v.encode("a\xff"); }),
            "decode_utf8: the text must be UTF-8, got byte 0xff at offset 1");
}

class LanguageText : public FileTest {
 protected:
  LanguageData read() { return read_language_data(config_, files_.path()); }
  std::string split(const std::string& name) { return read_language_text(config_, files_.path(), name); }
  std::string error() {
    return error_of<FileError>([&] { read(); });
  }

  LanguageConfig config_;
};

TEST_F(LanguageText, IsThatOfAllFilesInTheOrderOfTheirNames) {
  write("b.md", "zwei\r\n\r\n  drei\r\n");
  write("a.txt", "\ufeffeins");
  write("c.csv", "vier\n");
  const LanguageData data = read();
  EXPECT_EQ(data.train + data.valid, "eins\nzwei\n\n  drei\n");
  EXPECT_EQ(data.vocabulary.size(), TextVocabulary::characters(data.train).size());
  EXPECT_EQ(data.digests, (std::map<std::string, std::string>{{"a.txt", sha256_of_file(files_ / "a.txt")},
                                                              {"b.md", sha256_of_file(files_ / "b.md")},
                                                              {"training text", sha256(data.train + data.valid)}}));
  EXPECT_EQ(split("train"), data.train);
  for (const char* name : {"valid", "test"}) EXPECT_EQ(split(name), data.valid) << name;
  EXPECT_EQ(split("c.csv"), "vier\n");
}

// Each text is 100 bytes long, so its last tenth begins at byte 90.
TEST_F(LanguageText, TheLastTenthIsValidationFromTheBeginningOfALineOn) {
  const auto valid = [&](const std::string& text) {
    write("a.txt", text);
    const LanguageData data = read();
    EXPECT_EQ(data.train + data.valid, text);
    return data.valid;
  };
  std::string lines;
  for (int i = 0; i < 18; ++i) lines += "1234\n";
  EXPECT_EQ(valid(lines + "abcd\nefgh\n"), "abcd\nefgh\n");  // a line begins at byte 90
  EXPECT_EQ(valid("xx" + lines + "cd\nefgh\n"), "cd\nefgh\n");
  EXPECT_EQ(valid(std::string(99, 'x') + "\n"), "xxxxxxxxx\n");
  std::string accents;
  for (int i = 0; i < 49; ++i) accents += "\u00e9";
  EXPECT_EQ(valid("x" + accents + "\n"), "\u00e9\u00e9\u00e9\u00e9\n");  // byte 90 is inside a character
}

TEST_F(LanguageText, ValidationAndTestMayHaveFilesOfTheirOwnWhichAreNotTrainedOn) {
  for (const char* name : {"a", "v", "w"}) write(name + std::string(".txt"), name + std::string("\n"));
  config_.valid = "./v.txt", config_.test = "w.txt";
  EXPECT_EQ(split("train"), "a\n");
  EXPECT_EQ(split("valid"), "v\n");
  EXPECT_EQ(split("test"), "w\n");
  EXPECT_EQ(read().digests.count("v.txt"), 1u);
  EXPECT_EQ(read().vocabulary.decode(read().vocabulary.encode("av")), "a\ufffd");
  config_.train = files_ / "w.txt";
  EXPECT_EQ(split("train"), "w\n");
}

// A resumed run compares digests by name. If both files had the same name, the run would miss a change in one of them.
TEST_F(LanguageText, FilesOfOneNameHaveADigestEach) {
  for (const std::string part : {"a", "b"}) write(part + "/text.txt", part + " text\n");
  config_.train = "a/text.txt", config_.valid = "b/text.txt";
  EXPECT_EQ(read().digests, (std::map<std::string, std::string>{{"text.txt", sha256("b text\n")},
                                                                {"train/text.txt", sha256("a text\n")}}));
}

TEST_F(LanguageText, MissingAndEmptyFilesAreNamed) {
  const std::string must =
      files_.path() + ": must have text, in files NAME.txt or NAME.md; or data.train must name a file";
  EXPECT_EQ(error(), must);
  write("a.csv", "eins\n");
  EXPECT_EQ(error(), must);
  config_.train = "no.txt";
  const std::string absent =
      ": does not exist; data.directory = \"\" is below --data-dir, $FOLDGRAD_DATA or ~/.cache/foldgrad";
  EXPECT_EQ(error(), "@no.txt" + absent);
  write("no.txt", "");
  EXPECT_EQ(error(), "@no.txt: must have text, got an empty file");
  write("no.txt", "eins\nz\xffwei\n");
  EXPECT_EQ(error(), "@no.txt: line 2 must be UTF-8, got byte 0xff at byte 2 of the line");
  config_.train = "a.csv", config_.valid = "no";
  EXPECT_EQ(error(), "@no: cannot be opened: No such file or directory");
  config_.train = config_.valid = "";
  EXPECT_EQ(message<FileError>([&] { read_language_data(config_, "/absent"); }), "/absent" + absent);
}

// Computing the digest of these 16 GiB would take 5 to 50 seconds, so the reader must reject the file at its first
// byte.
TEST_F(LanguageText, AFileOfHolesIsRefusedAtOnce) {
  write("a.txt", "");
  std::filesystem::resize_file(files_ / "a.txt", std::uintmax_t(1) << 34);
  const std::clock_t begin = std::clock();
  EXPECT_EQ(error(), "@a.txt: line 1 must be text, got a zero byte at byte 1 of the line");
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 1);
}

TEST_F(LanguageText, AVocabularyThatCannotBeLearnedNamesTheFile) {
  if (!sentence_piece_available()) GTEST_SKIP() << "this build lacks SentencePiece";
  write("a.txt", kText);
  config_.train = "a.txt", config_.tokenizer = TextTokenizer::bpe, config_.vocabulary = 100000;
  EXPECT_TRUE(begins(error(), "@a.txt: data.tokenizer = \"bpe\" with data.vocabulary = 100000: sentence_piece: the "));
}

}  // namespace
}  // namespace foldgrad::testing
