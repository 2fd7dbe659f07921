// Options of normalizers: what there is, as text for people and files, and the values that were chosen.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct NormalizerOption {
  enum class Kind { number, integer, boolean, choice };

  std::string name;
  Kind kind;
  std::string default_value;  // "=NAME" for the value of another option
  std::string help;
  double minimum = -std::numeric_limits<double>::infinity(), maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;             // the minimum itself is not allowed
  std::vector<std::string> choices = {};  // of kind choice
  std::string default_in_reference = {};  // where it differs, for normalizers with an option `mode`

  std::string values() const;  // "an integer of at least 1", "0 or 1", ...
};

// The chosen values; options that were not given have their defaults.
class NormalizerOptions {
 public:
  // Throws std::invalid_argument for a name that is not known, naming the nearest, and for a value out of range.
  // `normalizer` is for the messages.
  NormalizerOptions(const std::string& normalizer, const std::vector<NormalizerOption>& known,
                    const std::map<std::string, std::string>& given);

  // Throw std::out_of_range for names that are not options: a mistake of the caller's code.
  double number(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;
  const std::string& text(const std::string& name) const { return values_.at(name); }
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace foldgrad
