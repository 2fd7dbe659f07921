// Tests base64, splitting of text into words, escapes for terminals, and the JSON reader.
#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/data/lines.h"
#include "train/system/digest.h"
#include "train/system/json_file.h"
#include "train/system/printable.h"
#include "train/system/unicode.h"

namespace foldgrad::testing {
namespace {

// Tests the vectors of RFC 4648, section 10, and bytes that are encoded as + and /.
TEST(Base64, TestVectors) {
  const char* const want[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (std::size_t n = 0; n <= 6; ++n) EXPECT_EQ(base64(std::string("foobar").substr(0, n)), want[n]);
  EXPECT_EQ(base64(std::string("\xfb\xff\x00", 3)), "+/8A");
}

// split_words() must split at the same characters as Python's str.split().
TEST(SplitWords, WhiteSpaceIsThatOfUnicode) {
  using Words = std::vector<std::string>;
  for (const char* space : {" ", "\t", "\r", "\x1c", "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028",
                            "\u2029", "\u202f", "\u205f", "\u3000"})
    EXPECT_EQ(split_words("a" + std::string(space) + "b"), (Words{"a", "b"})) << space;
  for (const char* letter : {"\u200b", "\u2060", "\u180e", "\ufeff", "\x1b"})
    EXPECT_EQ(split_words("a" + std::string(letter) + "b").size(), 1u) << letter;
}

TEST(IsBlank, NothingIsDrawn) {
  for (const char* blank :
       {"", " \t", "\u00a0\u3000", "\u200b", "\ufeff \u200e", "\x01", "\x7f", "\u00ad", "\U000e0041"})
    EXPECT_TRUE(is_blank(blank)) << blank;
  for (const char* text : {"a", "\u200b.", "\ufffd", "\u00a1", "\U0001f600"}) EXPECT_FALSE(is_blank(text)) << text;
}

TEST(InQuotes, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes("plain, \u00e9\U0001f600"), "\"plain, \u00e9\U0001f600\"");
  EXPECT_EQ(in_quotes("\x1b[31m\x7f\n\t\r"), "\"\\x1b[31m\\x7f\\n\\t\\r\"");
  EXPECT_EQ(in_quotes(std::string("a\0b", 3)), "\"a\\x00b\"");
  EXPECT_EQ(in_quotes("\xc2\x9b"), "\"\\x9b\"");  // U+009B begins control sequences, like ESC [
  EXPECT_EQ(in_quotes("\u202eabc\u2066\u2028"), "\"\\u202eabc\\u2066\\u2028\"");
  EXPECT_EQ(in_quotes("\u200e\u200f\u200d"), "\"\\u200e\\u200f\u200d\"");  // escapes direction marks, but not joiners
  EXPECT_EQ(in_quotes("a\xff\xc3"), "\"a\\xff\\xc3\"");
}

TEST(InQuotes, CutsBehindEightyCharacters) {
  EXPECT_EQ(in_quotes(std::string(80, 'a')), '"' + std::string(80, 'a') + '"');
  EXPECT_EQ(in_quotes(std::string(81, 'a')), '"' + std::string(80, 'a') + "\"...");
  std::string wide, kept;
  for (int i = 0; i < 100; ++i) wide += "\U0001f600";
  for (int i = 0; i < 80; ++i) kept += "\U0001f600";
  EXPECT_EQ(in_quotes(wide), '"' + kept + "\"...");  // counts characters, not bytes
  EXPECT_EQ(in_quotes(std::string(500, 'a') + "\xff"), '"' + std::string(80, 'a') + "\"...");
  EXPECT_EQ(in_quotes("a" + wide), "\"a" + kept.substr(4) + "\"...");
}

TEST(Printable, KeepsLinesAndBothEndsOfLongOnes) {
  EXPECT_EQ(printable("two\nlines\n"), "two\nlines\n");
  EXPECT_EQ(printable("a \x1b[31m\xff b"), "a \\x1b[31m\\xff b");
  std::string words;  // 1,000 characters
  for (int i = 0; i < 500; ++i) words += "a ";
  EXPECT_EQ(printable(words), words);
  EXPECT_EQ(printable("x\n" + words + "b"),
            "x\n" + words.substr(0, 600) + " [... 1 characters ...] " + words.substr(601) + "b");
  EXPECT_LT(printable(std::string(1'000'000, '\xff')).size(), 5000u);
}

TEST(Printable, ShortensValues) {
  const std::string whole(256, 'a'), cut = std::string(160, 'a') + "..." + std::string(80, 'a');
  EXPECT_EQ(printable("x: " + whole + ": y"), "x: " + whole.substr(0, 160) + "..." + whole.substr(0, 79) + ": y");
  EXPECT_EQ(printable("x " + whole + " y"), "x " + whole + " y");
  EXPECT_EQ(printable("x a" + whole + " y a" + whole), "x " + cut + " y " + cut);
  std::string words;
  for (int i = 0; i < 200; ++i) words += "a ";
  EXPECT_EQ(printable("must be b, got \"" + words + "\""),
            "must be b, got \"" + words.substr(0, 159) + "..." + words.substr(321) + "\"");
}

class JsonFile : public FileTest {
 protected:
  std::string error(const std::string& text) {
    write("a.json", text);
    return error_of<FileError>([&] { read_json(files_ / "a.json"); });
  }
  static std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }
};

TEST_F(JsonFile, NamesTheFileAndWhatIsWrong) {
  EXPECT_EQ(error("{\"a\": [1, 2.5e308"), "@a.json: must not contain numbers whose magnitude exceeds 1.8e308");
  EXPECT_EQ(error("{\"a\": -1e400}"), "@a.json: must not contain numbers whose magnitude exceeds 1.8e308");
  EXPECT_EQ(error("{\"a\": "), "@a.json: is not JSON at byte 7");
  EXPECT_EQ(error(""), "@a.json: is not JSON at byte 1");
  EXPECT_EQ(error("\"\xff\""), "@a.json: is not JSON at byte 2");
  EXPECT_EQ(error("\xef\xbb\xbf{}"), "@a.json: must not begin with a byte order mark");
  EXPECT_EQ(error_of<FileError>([&] { read_json(files_ / "absent"); }),
            "@absent: cannot be opened: No such file or directory");
  EXPECT_EQ(error("{\"a\": {\"b\": 1, \"b\": 2}}"), "@a.json: must not repeat a key within an object, got \"b\" twice");
  EXPECT_EQ(error(std::string("{}\0", 3)), "@a.json: is not JSON at byte 3");
}

// The file is sparse and has a size of 1 TiB. read_json() must reject it for its size, and read_lines() for its first
// zero byte.
TEST_F(JsonFile, IsNotLargerThanWhatIsReadWhole) {
  write("a.json", "{}");
  std::filesystem::resize_file(files_ / "a.json", std::uintmax_t(1) << 40);
  EXPECT_EQ(error_of<FileError>([&] { read_json(files_ / "a.json"); }),
            "@a.json: must have at most 268435456 bytes, got 1099511627776");
  EXPECT_EQ(error_of<FileError>([&] { read_lines(files_ / "a.json"); }),
            "@a.json: line 1 must be text, got a zero byte at byte 3 of the line");
}

TEST_F(JsonFile, MembersHaveTheirTypes) {
  const nlohmann::json object{{"a", 1}, {"b", "x"}, {"c", 1.5}, {"d", -1}, {"e", {{"f", 1}}}};
  EXPECT_EQ(member<std::int64_t>(object, "a", "p"), 1);
  EXPECT_EQ(member<double>(object, "a", "p"), 1.0);
  EXPECT_EQ(member<std::string>(object, "b", "p"), "x");
  EXPECT_EQ(member<nlohmann::json>(object, "e", "p"), object["e"]);
  const auto error = [&]<class T>(T, const char* key) {
    return message<FileError>([&] { member<T>(object, key, "p"); });
  };
  EXPECT_EQ(error(std::int64_t(), "z"), "p: \"z\" must be an integer, got nothing");
  EXPECT_EQ(error(std::int64_t(), "c"), "p: \"c\" must be an integer, got 1.5");
  EXPECT_EQ(error(std::uint64_t(), "d"), "p: \"d\" must be an integer, got -1");
  EXPECT_EQ(error(double(), "b"), "p: \"b\" must be a number, got \"x\"");
  EXPECT_EQ(error(std::string(), "e"), "p: \"e\" must be text, got an object");
  EXPECT_EQ(error(nlohmann::json(), "a"), "p: \"a\" must be an object, got 1");
}

TEST_F(JsonFile, IsNotNestedDeep) {
  write("a.json", nested(65));
  EXPECT_EQ(read_json(files_ / "a.json").dump(), nested(65));
  EXPECT_EQ(error(nested(66)), "@a.json: must not be nested more than 64 deep");
  EXPECT_EQ(error(std::string(5'000'000, '[')), "@a.json: must not be nested more than 64 deep");
}

TEST(JsonShown, CutsTextAndNamesWhatIsLarge) {
  EXPECT_EQ(shown(1.5), "1.5");
  EXPECT_EQ(shown(nullptr), "null");
  EXPECT_EQ(shown("a\x1b"), "\"a\\x1b\"");
  EXPECT_EQ(shown(std::string(100, 'a')), '"' + std::string(80, 'a') + "\"...");
  EXPECT_EQ(shown(nlohmann::json::array({1})), "an array");
  EXPECT_EQ(shown(nlohmann::json::object()), "an object");
}

}  // namespace
}  // namespace foldgrad::testing
