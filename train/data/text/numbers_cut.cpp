#include <algorithm>
#include <set>
#include <string_view>

#include "train/data/text/numbers.h"
#include "train/system/unicode.h"

namespace foldgrad::numbers {
namespace {

// Cutting takes the longest part that fits, from left to right. No number word goes wrong with it: "sechs" and "sech",
// "sieben" and "sieb" are told apart by what follows, and "eins", "eine", "achte", "erste" only end words. "ten" is
// English and a German ending.
constexpr std::string_view kGerman[] = {
    "null",   "ein",     "eins",    "eine",    "zwei",      "drei",      "vier",    "fünf",     "sechs",   "sieben",
    "acht",   "neun",    "zehn",    "elf",     "zwölf",     "zwan",      "sech",    "sieb",     "zig",     "ßig",
    "und",    "hundert", "tausend", "Million", "Millionen", "erste",     "dritte",  "achte",    "te",      "ste",
    "ersten", "dritten", "achten",  "ten",     "sten",      "am",        "Komma",   "Januar",   "Februar", "März",
    "April",  "Mai",     "Juni",    "Juli",    "August",    "September", "Oktober", "November", "Dezember"};
constexpr std::string_view kEnglish[] = {
    "zero",     "one",      "two",      "three",      "four",      "five",      "six",      "seven",     "eight",
    "nine",     "ten",      "eleven",   "twelve",     "thirteen",  "fourteen",  "fifteen",  "sixteen",   "seventeen",
    "eighteen", "nineteen", "twenty",   "thirty",     "forty",     "fifty",     "sixty",    "seventy",   "eighty",
    "ninety",   "twenty-",  "thirty-",  "forty-",     "fifty-",    "sixty-",    "seventy-", "eighty-",   "ninety-",
    "first",    "second",   "third",    "fifth",      "eighth",    "ninth",     "twelfth",  "twentieth", "thirtieth",
    "fortieth", "fiftieth", "sixtieth", "seventieth", "eightieth", "ninetieth", "th",       "hundred",   "thousand",
    "million",  "and",      "point",    "on",         "the",       "of",        "oh",       "January",   "February",
    "March",    "May",      "June",     "July",       "October",   "December"};

const std::set<std::string_view>& parts() {
  static const std::set<std::string_view> all = [] {
    std::set<std::string_view> made(std::begin(kGerman), std::end(kGerman));
    made.insert(std::begin(kEnglish), std::end(kEnglish));
    return made;
  }();
  return all;
}

std::size_t longest_part(std::string_view word) {
  std::size_t longest = 0;
  for (const std::string_view part : parts())
    if (part.size() > longest && word.substr(0, part.size()) == part) longest = part.size();
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
  for (const std::string_view part : parts()) {
    all.emplace_back(part);
    all.push_back(std::string(part) + "@@");
  }
  return all;
}

}  // namespace foldgrad::numbers
