#include "train/data/text/numbers_ranges.h"

#include "engine/check.h"

namespace foldgrad::numbers {

int days_of_month(int year, int month) {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

void check_cardinal(std::int64_t n) {
  FOLDGRAD_CHECK(n >= 0 && n <= 999'999'999, "numbers: a cardinal must be in [0, 999999999], got {}", n);
}

void check_ordinal(std::int64_t n) {
  FOLDGRAD_CHECK(n >= 1 && n <= 999'999, "numbers: an ordinal must be in [1, 999999], got {}", n);
}

void check_digits(const std::string& digits) {
  FOLDGRAD_CHECK(!digits.empty() && digits.find_first_not_of("0123456789") == digits.npos,
                 "numbers: behind the point there must be digits, got \"{}\"", digits);
}

void check_date(Date date) {
  FOLDGRAD_CHECK(date.year >= 1800 && date.year <= 2099 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
                     date.day <= days_of_month(date.year, date.month),
                 "numbers: a date must be a day from 1800-01-01 to 2099-12-31, got {:04}-{:02}-{:02}", date.year,
                 date.month, date.day);
}

}  // namespace foldgrad::numbers
