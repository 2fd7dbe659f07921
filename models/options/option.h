// The description of a setting, which is an option of a normalizer or a key of a configuration. It contains all that is
// needed to read, check, write and explain the setting.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "engine/contains.h"

namespace foldgrad {

struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_excluded = false, high_excluded = false;

  bool contains(double v) const {  // false for NaN
    return (low_excluded ? v > low : v >= low) && (high_excluded ? v < high : v <= high);
  }
};
// at_least() and above() exclude infinity.
constexpr Range at_least(double low) { return {.low = low, .high_excluded = true}; }
constexpr Range within(double low, double high) { return {.low = low, .high = high}; }
constexpr Range above(double low) { return {.low = low, .low_excluded = true, .high_excluded = true}; }
constexpr Range kFraction{.low = 0, .high = 1, .high_excluded = true};

struct Option {
  enum class Kind {
    number,
    integer,
    integers,  // a list of integers
    boolean,   // true or false
    flag,      // a boolean, written "0" or "1"
    choice,
    text,
    texts  // a list of strings
  };

  std::string name, help;
  Kind kind;
  Range range = {};
  std::vector<std::string> choices = {};  // used only with Kind::choice
  std::string unit = {};

  std::string values() const;  // "an integer of at least 1", "a number in [0, 1)", "one of a, b", ...
  bool has_choice(const std::string& text) const { return contains(choices, text); }
};

}  // namespace foldgrad
