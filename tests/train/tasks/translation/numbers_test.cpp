#include "train/tasks/translation/numbers.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/engine/error_message.h"
#include "tests/harness/properties.h"
#include "train/system/unicode.h"
#include "train/tasks/translation/bpe.h"
#include "train/tasks/translation/dictionary.h"

namespace foldgrad::numbers {
namespace {

TEST(Numbers, CardinalsSpelledByHand) {
  const std::tuple<std::int64_t, const char*, const char*> cases[] = {
      {0, "null", "zero"},
      {1, "eins", "one"},
      {7, "sieben", "seven"},
      {12, "zwölf", "twelve"},
      {16, "sechzehn", "sixteen"},
      {17, "siebzehn", "seventeen"},
      {20, "zwanzig", "twenty"},
      {21, "einundzwanzig", "twenty-one"},
      {30, "dreißig", "thirty"},
      {66, "sechsundsechzig", "sixty-six"},
      {77, "siebenundsiebzig", "seventy-seven"},
      {100, "einhundert", "one hundred"},
      {101, "einhunderteins", "one hundred and one"},
      {345, "dreihundertfünfundvierzig", "three hundred and forty-five"},
      {1000, "eintausend", "one thousand"},
      {1001, "eintausendeins", "one thousand and one"},
      {1200, "eintausendzweihundert", "one thousand two hundred"},
      {21'000, "einundzwanzigtausend", "twenty-one thousand"},
      {101'000, "einhunderteintausend", "one hundred and one thousand"},
      {1'000'000, "eine Million", "one million"},
      {1'000'001, "eine Million eins", "one million and one"},
      {2'000'000, "zwei Millionen", "two million"},
      {21'000'100, "einundzwanzig Millionen einhundert", "twenty-one million one hundred"},
      {101'000'000, "einhunderteine Millionen", "one hundred and one million"},
      {999'999'999, "neunhundertneunundneunzig Millionen neunhundertneunundneunzigtausendneunhundertneunundneunzig",
       "nine hundred and ninety-nine million nine hundred and ninety-nine thousand nine hundred and ninety-nine"},
  };
  for (const auto& [n, german, english] : cases) {
    EXPECT_EQ(german_cardinal(n), german);
    EXPECT_EQ(english_cardinal(n), english);
  }
}

TEST(Numbers, OrdinalsDecimalsAndDatesSpelledByHand) {
  const std::tuple<std::int64_t, const char*, const char*> ordinals[] = {
      {1, "erste", "first"},
      {2, "zweite", "second"},
      {3, "dritte", "third"},
      {5, "fünfte", "fifth"},
      {7, "siebte", "seventh"},
      {8, "achte", "eighth"},
      {9, "neunte", "ninth"},
      {12, "zwölfte", "twelfth"},
      {18, "achtzehnte", "eighteenth"},
      {20, "zwanzigste", "twentieth"},
      {21, "einundzwanzigste", "twenty-first"},
      {100, "einhundertste", "one hundredth"},
      {103, "einhundertdritte", "one hundred and third"},
      {1000, "eintausendste", "one thousandth"},
      {2117, "zweitausendeinhundertsiebzehnte", "two thousand one hundred and seventeenth"},
      {40'080, "vierzigtausendachtzigste", "forty thousand and eightieth"},
  };
  for (const auto& [n, german, english] : ordinals) {
    EXPECT_EQ(german_ordinal(n), german);
    EXPECT_EQ(english_ordinal(n), english);
  }
  EXPECT_EQ(german_decimal(3, "14"), "drei Komma eins vier");
  EXPECT_EQ(english_decimal(3, "14"), "three point one four");
  EXPECT_EQ(german_decimal(0, "05"), "null Komma null fünf");
  const std::tuple<Date, const char*, const char*> dates[] = {
      {{1990, 10, 3}, "am dritten Oktober neunzehnhundertneunzig", "on the third of October nineteen ninety"},
      {{1905, 3, 31}, "am einunddreißigsten März neunzehnhundertfünf", "on the thirty-first of March nineteen oh five"},
      {{1900, 1, 1}, "am ersten Januar neunzehnhundert", "on the first of January nineteen hundred"},
      {{2000, 2, 29}, "am neunundzwanzigsten Februar zweitausend", "on the twenty-ninth of February two thousand"},
      {{2009, 7, 8}, "am achten Juli zweitausendneun", "on the eighth of July two thousand and nine"},
      {{2010, 7, 8}, "am achten Juli zweitausendzehn", "on the eighth of July twenty ten"},
      {{2025, 5, 21},
       "am einundzwanzigsten Mai zweitausendfünfundzwanzig",
       "on the twenty-first of May twenty twenty-five"},
      {{1801, 8, 7}, "am siebten August achtzehnhunderteins", "on the seventh of August eighteen oh one"},
  };
  for (const auto& [date, german, english] : dates) {
    EXPECT_EQ(german_date(date), german);
    EXPECT_EQ(english_date(date), english);
  }
}

// Computes the value of a cardinal from the parts into which cut() splits it. Returns -1 if a part is unknown. If every
// number is read back, no two numbers share a spelling, and cut() splits each correctly.
std::int64_t value_of(const std::string& words) {
  static const std::map<std::string, std::int64_t> kValues = [] {
    std::map<std::string, std::int64_t> values{{"ein", 1}, {"eine", 1}, {"sech", 6}, {"sieb", 7}, {"zwan", 2}};
    for (int n = 0; n <= 19; ++n) {
      values[english_cardinal(n)] = n;
      if (n <= 12) values[german_cardinal(n)] = n;
    }
    for (int tens = 20; tens < 100; tens += 10) values[english_cardinal(tens)] = tens;
    return values;
  }();
  std::int64_t total = 0, group = 0, last = 0;  // `group` is the part below 1000, without `last`
  std::string parts = cut(words);
  for (std::size_t at; (at = parts.find("@@")) != parts.npos;) parts.erase(at, 2);
  for (const std::string& raw : split_words(parts)) {
    const std::string part = raw.back() == '-' ? raw.substr(0, raw.size() - 1) : raw;
    if (part == "hundert" || part == "hundred") {
      group += (last ? last : 1) * 100, last = 0;
    } else if (part == "tausend" || part == "thousand") {
      total += (group + last) * 1000, group = last = 0;
    } else if (part == "Million" || part == "Millionen" || part == "million") {
      total += (group + last) * 1'000'000, group = last = 0;
    } else if (part == "zig" || part == "ßig") {
      last *= 10;
    } else if (part == "zehn" && last) {
      last += 10;
    } else if (part == "und") {
      group += last, last = 0;
    } else if (part != "and") {
      const auto found = kValues.find(part);
      if (found == kValues.end()) return -1;
      group += last, last = found->second;
    }
  }
  return total + group + last;
}

RC_GTEST_PROP(Numbers, CardinalsCanBeReadBack, ()) {
  const int digits = *rc::gen::inRange(1, 10);
  std::int64_t end = 1;
  for (int i = 0; i < digits; ++i) end *= 10;
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, end);
  RC_ASSERT(value_of(german_cardinal(n)) == n);
  RC_ASSERT(value_of(english_cardinal(n)) == n);
}

TEST(Numbers, SmallCardinalsCanBeReadBack) {
  for (std::int64_t n = 0; n < 12'000; ++n) {
    ASSERT_EQ(value_of(german_cardinal(n)), n);
    ASSERT_EQ(value_of(english_cardinal(n)), n);
  }
}

TEST(Numbers, CutByHandAndJoinedAgain) {
  EXPECT_EQ(cut("einundzwanzigste"), "ein@@ und@@ zwan@@ zig@@ ste");
  EXPECT_EQ(cut("am siebten Mai"), "am sieb@@ ten Mai");
  EXPECT_EQ(cut("twenty-first"), "twenty-@@ first");
  EXPECT_EQ(cut("sechs quer siebenquer"), "sechs quer sieben@@ quer");
  EXPECT_EQ(cut("am einunddreißigsten März"), "am ein@@ und@@ drei@@ ßig@@ sten März");
}

TEST(Numbers, SplitsAreDisjointWhateverTheSeed) {
  std::map<std::string, Split> split_of;
  for (const auto& [split, count] :
       {std::pair(Split::train, 20'000), std::pair(Split::valid, 1000), std::pair(Split::test, 1000)})
    for (const std::uint64_t seed : {1, 2}) {
      const ParallelText text = sample(split, count, seed);
      ASSERT_EQ(text.target.size(), std::size_t(count));
      EXPECT_EQ(std::set<std::string>(text.source.begin(), text.source.end()).size(), std::size_t(count));
      for (const std::string& line : text.source) ASSERT_EQ(split_of.emplace(line, split).first->second, split) << line;
    }
}

TEST(Numbers, SamplesRepeatAndFollowTheSeed) {
  const ParallelText text = sample(Split::valid, 100, 3);
  EXPECT_EQ(sample(Split::valid, 100, 3).source, text.source);
  EXPECT_EQ(sample(Split::valid, 100, 3).target, text.target);
  EXPECT_NE(sample(Split::valid, 100, 4).source, text.source);
}

TEST(Numbers, TheVocabularyKnowsEveryPair) {
  const Dictionary dictionary = Dictionary::of_words(vocabulary());
  const ParallelText text = sample(Split::train, 10'000);
  for (const auto* side : {&text.source, &text.target})
    for (const std::string& line : *side) {
      const std::string parts = cut(line);
      ASSERT_EQ(remove_bpe(parts), line);
      const Ids ids = dictionary.encode(parts);
      ASSERT_EQ(std::count(ids.begin(), ids.end(), kUnk), 0) << parts;
      ASSERT_EQ(dictionary.decode(ids), parts);
      ASSERT_LE(ids.size(), 28u) << parts;
    }
}

TEST(Numbers, ErrorsNameTheRange) {
  EXPECT_EQ(testing::message<std::invalid_argument>([] { sample(Split::train, 0); }),
            "numbers: a sample must have 1 to 1000000 pairs, got 0");
}

}  // namespace
}  // namespace foldgrad::numbers
