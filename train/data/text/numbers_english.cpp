#include <fmt/format.h>

#include "train/data/text/numbers.h"

namespace foldgrad::numbers {
namespace {

constexpr const char* kSmall[] = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                  "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                  "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr const char* kTens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
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

std::string ordinal_of(const std::string& word) {
  constexpr const char* kIrregular[][2] = {{"one", "first"},     {"two", "second"},   {"three", "third"},
                                           {"five", "fifth"},    {"eight", "eighth"}, {"nine", "ninth"},
                                           {"twelve", "twelfth"}};
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
  const std::size_t last = cardinal.find_last_of(" -") + 1;  // 0 when there is but one word
  return cardinal.substr(0, last) + ordinal_of(cardinal.substr(last));
}

std::string english_decimal(std::int64_t whole, const std::string& digits) {
  std::string text = english_cardinal(whole) + " point";
  for (const char digit : digits) text.append(" ").append(kSmall[digit - '0']);
  return text;
}

std::string english_date(Date date) {
  return fmt::format("on the {} of {} {}", english_ordinal(date.day), kMonths[date.month - 1], year_words(date.year));
}

}  // namespace foldgrad::numbers
