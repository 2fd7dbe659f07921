// Checks of arguments, for both languages of the task `numbers`. Each throws std::invalid_argument.
#pragma once
#include "train/data/text/numbers.h"

namespace foldgrad::numbers {

int days_of_month(int year, int month);

void check_cardinal(std::int64_t n);
void check_ordinal(std::int64_t n);
void check_digits(const std::string& digits);
void check_date(Date date);

}  // namespace foldgrad::numbers
