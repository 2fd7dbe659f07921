#include "models/options/option.h"

#include <fmt/format.h>

namespace foldgrad {
namespace {

std::string values_of(const char* what, const Range& range) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (range.high < kInfinity)
    return fmt::format("{} in {}{}, {}{}", what, range.low_excluded ? "(" : "[", range.low, range.high,
                       range.high_excluded ? ")" : "]");
  if (range.low > -kInfinity)
    return fmt::format("{} {} {}", what, range.low_excluded ? "above" : "of at least", range.low);
  return what;
}

}  // namespace

std::string Option::values() const {
  switch (kind) {
    case Kind::number:
      return values_of("a number", range);
    case Kind::integer:
      return values_of("an integer", range);
    case Kind::integers:
      return values_of("a list of integers", range);
    case Kind::boolean:
      return "true or false";
    case Kind::flag:
      return "0 or 1";
    case Kind::choice:
      return fmt::format("one of {}", fmt::join(choices, ", "));
    case Kind::texts:
      return "a list of text";
    case Kind::text:
      break;
  }
  return "text";
}

}  // namespace foldgrad
