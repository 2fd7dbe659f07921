#include "models/normalizers/options.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/check.h"
#include "engine/contains.h"
#include "models/options/nearest_name.h"

namespace foldgrad {
namespace {

// Parses the whole string as a number. Returns false if the string is not a number.
template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

bool valid(const Option& option, const std::string& text) {
  double number;
  std::int64_t integer;
  switch (option.kind) {
    case Option::Kind::number:
      return parse(text, number) && option.range.contains(number);
    case Option::Kind::integer:
      return parse(text, integer) && option.range.contains(double(integer));
    case Option::Kind::boolean:
    case Option::Kind::flag:
      return text == "0" || text == "1" || text == "true" || text == "false";
    case Option::Kind::choice:
      return option.has_choice(text);
    case Option::Kind::text:
    case Option::Kind::texts:     // used only in configurations
    case Option::Kind::integers:  // used only in configurations
      break;
  }
  return true;
}

}  // namespace

NormalizerOptions::NormalizerOptions(const std::string& normalizer, const std::vector<NormalizerOption>& known,
                                     const std::map<std::string, std::string>& given) {
  std::vector<std::string> names;
  for (const NormalizerOption& option : known) names.push_back(option.name);
  for (const auto& [name, value] : given) {
    FOLDGRAD_CHECK(!names.empty(), "{}: there is no option \"{}\"; this normalizer has no options", normalizer, name);
    FOLDGRAD_CHECK(contains(names, name), "{}: there is no option \"{}\"{} Its options are: {}", normalizer, name,
                   did_you_mean(name, names, "\"", "."), fmt::join(names, ", "));
  }
  const auto mode = given.find("mode");
  for (const NormalizerOption& option : known) {
    if (const auto found = given.find(option.name); found != given.end()) {
      FOLDGRAD_CHECK(valid(option, found->second), "{}: {} must be {}, got \"{}\"", normalizer, option.name,
                     option.values(), found->second);
      values_[option.name] = found->second;
      continue;
    }
    const bool reference = mode != given.end() && mode->second == "reference" && !option.default_in_reference.empty();
    const std::string& value = reference ? option.default_in_reference : option.default_value;
    values_[option.name] = value[0] == '=' ? values_.at(value.substr(1)) : value;
  }
}

double NormalizerOptions::number(const std::string& name) const {
  double value = 0;
  parse(text(name), value);
  return value;
}
std::int64_t NormalizerOptions::integer(const std::string& name) const {
  std::int64_t value = 0;
  parse(text(name), value);
  return value;
}
bool NormalizerOptions::flag(const std::string& name) const { return text(name) == "1" || text(name) == "true"; }

}  // namespace foldgrad
