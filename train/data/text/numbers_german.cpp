#include <fmt/format.h>

#include "train/data/text/numbers.h"

namespace foldgrad::numbers {
namespace {

constexpr const char* kDigits[] = {"null",   "eins", "zwei", "drei", "vier", "fünf", "sechs",
                                   "sieben", "acht", "neun", "zehn", "elf",  "zwölf"};
// Stems before -zehn and -zig.
constexpr const char* kStems[] = {"", "", "zwan", "drei", "vier", "fünf", "sech", "sieb", "acht", "neun"};
constexpr const char* kGermanMonths[] = {"Januar", "Februar", "März",      "April",   "Mai",      "Juni",
                                         "Juli",   "August",  "September", "Oktober", "November", "Dezember"};

// `one` is the form of 1 at the end: "eins", "ein" before tausend, "eine" before Millionen.
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

}  // namespace foldgrad::numbers
