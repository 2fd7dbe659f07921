#include "train/tasks/translation/bleu.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/engine/error_message.h"
#include "train/system/unicode.h"

namespace foldgrad::testing {
namespace {

using nlohmann::json;

// Returns the cases whose scores make_score_goldens.py computed with sacreBLEU and multi-bleu.perl.
const json& goldens() {
  static const json cases = json::parse(std::ifstream(FOLDGRAD_SOURCE_DIR "/tests/golden/scores.json"));
  return cases;
}

void expect_equal(const json& want, double score, const std::string& text, const std::string& what) {
  EXPECT_NEAR(score, want["score"].get<double>(), 1e-9) << what;
  EXPECT_EQ(text, want["text"]) << what;
}

TEST(Scores, BLEU_1_BLEU_2_BLEU_3_BLEU_4_CHRF_1_CHRF_2_CHRF_3_EqualTheOriginals) {
  ASSERT_GE(goldens().size(), 50u);
  int by_original = 0;
  for (const json& one : goldens()) {
    by_original += one["multi_bleu"]["by_original"].get<bool>();
    const Lines hypotheses = one["hypotheses"], references = one["references"];
    const std::string what = one["hypotheses"].dump() + " against " + one["references"].dump();
    const Bleu multi = multi_bleu(hypotheses, references);
    expect_equal(one["multi_bleu"], multi.score, multi.text, what);
    const json& want = one["sacre_bleu"];
    const Bleu sacre = sacre_bleu(hypotheses, references);
    expect_equal(want, sacre.score, sacre.text, what);
    EXPECT_EQ(sacre.signature, want["signature"]);
    for (int n = 0; n < 4; ++n) EXPECT_NEAR(sacre.precisions[n], want["precisions"][n].get<double>(), 1e-9) << what;
    const ChrF characters = chrf(hypotheses, references);
    expect_equal(one["chrf"], characters.score, characters.text, what);
    EXPECT_EQ(characters.signature, one["chrf"]["signature"]);
  }
  EXPECT_GE(by_original, 50);  // not in all cases: multi-bleu.perl fails if no hypothesis has a word
}

TEST(Scores, Tokenizer13aEqualsTheOriginal) {
  for (const json& one : goldens())
    for (std::size_t i = 0; i < one["hypotheses"].size(); ++i)
      EXPECT_EQ(tokenize_13a(one["hypotheses"][i]), one["tokens_13a"][i]) << one["hypotheses"][i];
}

TEST(Scores, ExactMatchCountsEqualLines) { EXPECT_EQ(exact_match({"a", "b ", "", "c"}, {"a", "b", "", "d"}), 50); }

TEST(Scores, ErrorsNameBothNumbersOfLinesOrTheLine) {
  const Lines two{"a", "b"}, three{"a", "b", "c"}, bad{"a", "b\xFF"}, worse{"\xFF", "b"};
  EXPECT_EQ(message<std::invalid_argument>([&] { multi_bleu(two, three); }),
            "multi_bleu: hypotheses and references must have the same number of lines, got 2 and 3");
  EXPECT_EQ(message<std::invalid_argument>([&] { sacre_bleu(three, two); }),
            "sacre_bleu: hypotheses and references must have the same number of lines, got 3 and 2");
  EXPECT_EQ(message<std::invalid_argument>([&] { chrf({}, {}); }), "chrf: there must be at least one line, got 0");
  EXPECT_EQ(message<std::invalid_argument>([&] { chrf(bad, two); }), "chrf: line 2 of the hypotheses is not UTF-8");
  EXPECT_EQ(message<std::invalid_argument>([&] { exact_match(two, bad); }),
            "exact_match: line 2 of the references is not UTF-8");
  EXPECT_EQ(message<std::invalid_argument>([&] { chrf(two, worse); }), "chrf: line 1 of the references is not UTF-8");
}

TEST(Unicode, EveryCodePointSurvivesUtf8) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    const std::u32string one(1, c);
    ASSERT_EQ(decode_utf8(encode_utf8(one)), one) << std::uint32_t(c);
  }
}

TEST(Unicode, FindsWhatIsNotUtf8) {
  const auto npos = std::string::npos;
  EXPECT_EQ(first_bad_utf8("gr\xC3\xBC\xC3\x9F"), npos);
  EXPECT_EQ(first_bad_utf8("\xF4\x8F\xBF\xBF"), npos);
  for (const char* bad : {"a\x80", "a\xC3", "a\xC0\x80", "a\xE0\x9F\xBF", "a\xED\xA0\x80", "a\xF0\x8F\xBF\xBF",
                          "a\xF4\x90\x80\x80", "a\xF5\x80\x80\x80", "a\xE2\x82", "a\xFF"})
    EXPECT_EQ(first_bad_utf8(bad), 1u) << bad;
  EXPECT_EQ(message<std::invalid_argument>([] { decode_utf8("ab\xFF"); }),
            "decode_utf8: the text must be UTF-8, got byte 0xff at offset 2");
}

}  // namespace
}  // namespace foldgrad::testing
