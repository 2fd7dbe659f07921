#include "train/tasks/translation/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <unordered_set>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/system/unicode.h"

namespace foldgrad::numbers {
namespace {

constexpr const char* kDigits[] = {"null",   "eins", "zwei", "drei", "vier", "fünf", "sechs",
                                   "sieben", "acht", "neun", "zehn", "elf",  "zwölf"};
// The stems before -zehn and -zig.
constexpr const char* kStems[] = {"", "", "zwan", "drei", "vier", "fünf", "sech", "sieb", "acht", "neun"};
constexpr const char* kGermanMonths[] = {"Januar", "Februar", "März",      "April",   "Mai",      "Juni",
                                         "Juli",   "August",  "September", "Oktober", "November", "Dezember"};

// `one` is the word for a final 1: "eins", or "ein" before tausend, or "eine" before Millionen.
std::string below_hundred(std::int64_t n, const char* one) {
  if (n == 0) return "";
  if (n == 1) return one;
  if (n <= 12) return kDigits[n];
  if (n < 20) return std::string(kStems[n - 10]) + "zehn";
  const std::string tens = std::string(kStems[n / 10]) + (n / 10 == 3 ? "ßig" : "zig");
  return n % 10 == 0 ? tens : below_hundred(n % 10, "ein") + "und" + tens;
}

std::string below_thousand(std::int64_t n, const char* one) {
  return (n >= 100 ? below_hundred(n / 100, "ein") + "hundert" : "") + below_hundred(n % 100, one);
}

}  // namespace

std::string german_cardinal(std::int64_t n) {
  if (n == 0) return kDigits[0];
  const std::int64_t millions = n / 1'000'000, thousands = n / 1000 % 1000;
  std::string text;
  if (millions > 0) text = below_thousand(millions, "eine") + (millions == 1 ? " Million" : " Millionen");
  if (millions > 0 && n % 1'000'000 > 0) text += ' ';
  if (thousands > 0) text += below_thousand(thousands, "ein") + "tausend";
  return text + below_thousand(n % 1000, "eins");
}

std::string german_ordinal(std::int64_t n) {
  const std::int64_t last = n % 100;
  if (last == 0 || last >= 20) return german_cardinal(n) + "ste";
  const std::string before = n == last ? "" : german_cardinal(n - last);
  return before + (last == 1   ? "erste"
                   : last == 3 ? "dritte"
                   : last == 7 ? "siebte"
                   : last == 8 ? "achte"
                               : german_cardinal(last) + "te");
}

std::string german_decimal(std::int64_t whole, const std::string& digits) {
  std::string text = german_cardinal(whole) + " Komma";
  for (const char digit : digits) text.append(" ").append(kDigits[digit - '0']);
  return text;
}

std::string german_date(Date date) {
  const std::string year = date.year < 2000
                               ? below_hundred(date.year / 100, "") + "hundert" + below_hundred(date.year % 100, "eins")
                               : german_cardinal(date.year);
  return fmt::format("am {}n {} {}", german_ordinal(date.day), kGermanMonths[date.month - 1], year);
}

namespace {

constexpr const char* kSmall[] = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                  "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                  "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr const char* kTens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr const char* kEnglishMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                          "July",    "August",   "September", "October", "November", "December"};

std::string below_hundred(std::int64_t n) {
  if (n < 20) return kSmall[n];
  return n % 10 == 0 ? kTens[n / 10] : fmt::format("{}-{}", kTens[n / 10], kSmall[n % 10]);
}

std::string below_thousand(std::int64_t n) {
  if (n < 100) return below_hundred(n);
  const std::string hundreds = fmt::format("{} hundred", kSmall[n / 100]);
  return n % 100 == 0 ? hundreds : hundreds + " and " + below_hundred(n % 100);
}

constexpr const char* kIrregular[][2] = {{"one", "first"},     {"two", "second"},   {"three", "third"},
                                         {"five", "fifth"},    {"eight", "eighth"}, {"nine", "ninth"},
                                         {"twelve", "twelfth"}};

std::string ordinal_of(const std::string& word) {
  for (const auto& [cardinal, ordinal] : kIrregular)
    if (word == cardinal) return ordinal;
  return word.back() == 'y' ? word.substr(0, word.size() - 1) + "ieth" : word + "th";
}

std::string year_words(int year) {
  if (year >= 2000 && year < 2010) return english_cardinal(year);
  const std::string century = below_hundred(year / 100);
  if (year % 100 == 0) return century + " hundred";
  return century + (year % 100 < 10 ? " oh " : " ") + below_hundred(year % 100);
}

}  // namespace

std::string english_cardinal(std::int64_t n) {
  if (n == 0) return kSmall[0];
  const std::int64_t millions = n / 1'000'000, thousands = n / 1000 % 1000, rest = n % 1000;
  std::string text;
  const auto append = [&](const std::string& part) { text.append(text.empty() ? "" : " ").append(part); };
  if (millions > 0) append(below_thousand(millions) + " million");
  if (thousands > 0) append(below_thousand(thousands) + " thousand");
  if (rest > 0 && rest < 100 && !text.empty()) append("and");
  if (rest > 0) append(below_thousand(rest));
  return text;
}

std::string english_ordinal(std::int64_t n) {
  const std::string cardinal = english_cardinal(n);
  const std::size_t last = cardinal.find_last_of(" -") + 1;  // 0 if there is only one word
  return cardinal.substr(0, last) + ordinal_of(cardinal.substr(last));
}

std::string english_decimal(std::int64_t whole, const std::string& digits) {
  std::string text = english_cardinal(whole) + " point";
  for (const char digit : digits) text.append(" ").append(kSmall[digit - '0']);
  return text;
}

std::string english_date(Date date) {
  return fmt::format("on the {} of {} {}", english_ordinal(date.day), kEnglishMonths[date.month - 1],
                     year_words(date.year));
}

namespace {

// Returns the 64-bit FNV-1a hash.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

struct Pair {
  std::string german, english;
  bool common = false;  // true if the pair is always for training
};

class Draws {
 public:
  explicit Draws(Random random) : random_(random) {}

  // Draws a number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const PhiloxWords words = random_.block(block_++);
    const std::uint64_t bits = std::uint64_t(words.word[0]) << 32 | words.word[1];
    return low + std::int64_t(bits % std::uint64_t(high - low + 1));
  }
  // Draws a number of 1 to `most` digits, all lengths equally likely.
  std::int64_t number(int most) {
    std::int64_t end = 10;
    for (std::int64_t digits = between(1, most); digits > 1; --digits) end *= 10;
    return between(end == 10 ? 0 : end / 10, end - 1);
  }

  Pair pair() {
    switch (between(0, 9)) {
      case 0: {
        const std::int64_t n = std::max<std::int64_t>(1, number(6));
        return {german_ordinal(n), english_ordinal(n), n < 100};
      }
      case 1: {
        const std::int64_t whole = number(6);
        std::string digits;
        for (std::int64_t more = between(0, 3); more > 0; --more) digits += char('0' + between(0, 9));
        digits += char('0' + between(1, 9));  // not 0, so that each number has only one form
        return {german_decimal(whole, digits), english_decimal(whole, digits)};
      }
      case 2: {
        Date date{int(between(1800, 2099)), int(between(1, 12)), 0};
        const auto month = std::chrono::year(date.year) / date.month;
        date.day = int(between(1, unsigned((month / std::chrono::last).day())));
        return {german_date(date), english_date(date)};
      }
      default: {
        const std::int64_t n = number(9);
        return {german_cardinal(n), english_cardinal(n), n < 100};
      }
    }
  }

 private:
  Random random_;
  std::uint64_t block_ = 0;
};

Split split_of(const Pair& pair) {
  const std::uint64_t part = hash(pair.german) % 20;
  return pair.common || part > 1 ? Split::train : part == 0 ? Split::valid : Split::test;
}

}  // namespace

ParallelText sample(Split split, std::int64_t pairs, std::uint64_t seed) {
  FOLDGRAD_CHECK(pairs >= 1 && pairs <= kMostPairs, "numbers: a sample must have 1 to {} pairs, got {}", kMostPairs,
                 pairs);
  Draws draws({.seed = seed, .stream = std::uint32_t(hash("numbers")) + std::uint32_t(split), .step = 0});
  std::unordered_set<std::string> taken;
  ParallelText text;
  while (std::int64_t(text.source.size()) < pairs) {
    Pair pair = draws.pair();
    if (split_of(pair) != split || !taken.insert(pair.german).second) continue;
    text.source.push_back(std::move(pair.german));
    text.target.push_back(std::move(pair.english));
  }
  return text;
}

namespace {

// Returns the parts into which words are cut. cut() goes through a word from left to right and cuts after the longest
// part that fits. This rule cuts all number words correctly: the letters that follow tell "sechs" from "sech" and
// "sieben" from "sieb", and "eins", "eine", "achte" and "erste" occur only at the end of a word. "ten" is both an
// English number and a German ending.
const std::set<std::string>& parts() {
  static const std::set<std::string> all = [] {
    std::set<std::string> some{"ein",       "eine",  "zig",    "ßig",   "und",   "hundert", "tausend", "Million",
                               "Millionen", "erste", "dritte", "achte", "te",    "ste",     "ersten",  "dritten",
                               "achten",    "ten",   "sten",   "am",    "Komma", "th",      "hundred", "thousand",
                               "million",   "and",   "point",  "on",    "the",   "of",      "oh"};
    const auto add = [&](const auto& words) { some.insert(std::begin(words), std::end(words)); };
    add(kDigits), add(kStems), add(kGermanMonths), add(kSmall), add(kTens), add(kEnglishMonths);
    some.erase("");
    for (const auto& [cardinal, ordinal] : kIrregular) some.insert(ordinal);
    for (const std::string tens : kTens)
      if (!tens.empty()) some.insert({tens + "-", ordinal_of(tens)});
    return some;
  }();
  return all;
}

std::size_t longest_part(std::string_view word) {
  std::size_t longest = 0;
  for (const std::string& part : parts())
    if (part.size() > longest && word.starts_with(part)) longest = part.size();
  return longest;
}

}  // namespace

std::string cut(const std::string& text) {
  std::string result;
  for (const std::string& word : split_words(text)) {
    result += result.empty() ? "" : " ";
    std::string_view rest = word;
    for (std::size_t bytes = longest_part(rest); bytes > 0 && bytes < rest.size(); bytes = longest_part(rest)) {
      result.append(rest.substr(0, bytes)).append("@@ ");
      rest.remove_prefix(bytes);
    }
    result += rest;
  }
  return result;
}

std::vector<std::string> vocabulary() {
  std::vector<std::string> all;
  for (const std::string& part : parts()) all.insert(all.end(), {part, part + "@@"});
  return all;
}

}  // namespace foldgrad::numbers
