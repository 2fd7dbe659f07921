// A key of a configuration: where it stands, what it is for, and what it decides.
#pragma once
#include <type_traits>

#include "models/options/option.h"
#include "train/config/config.h"

namespace foldgrad {

constexpr std::int64_t kMostOfASize = INT32_MAX;

struct ConfigKey : Option {
  std::string section;
  bool trajectory = true;         // it decides the trained numbers
  bool required_in_json = false;  // of a model's directory, since inference depends on it
  bool from_data = false;         // or from folding
  bool in_hash = true;            // of those that decide the numbers

  ConfigKey(const char* section, const char* name, const char* unit, const char* help, Range range = {})
      : Option{name, help, Kind::text, range, {}, unit}, section(section) {}
  ConfigKey(const char* section, const char* name, const char* help, std::vector<std::string> choices)
      : Option{name, help, Kind::choice, {}, std::move(choices)}, section(section) {}

  std::string full_name() const { return section + "." + name; }
  // From the field that it is the key of; text with choices stays what it is.
  template <class Field>
  void set_kind(const Field&) {
    if (std::is_same_v<Field, double>) kind = Kind::number;
    if (std::is_same_v<Field, std::int64_t>) kind = Kind::integer;
    if (std::is_same_v<Field, std::vector<std::int64_t>>) kind = Kind::integers;
    if (std::is_same_v<Field, bool>) kind = Kind::boolean;
  }
};

inline ConfigKey off_trajectory(ConfigKey key) {
  key.trajectory = false;
  return key;
}
// A key that 0.2.0 did not have: at its default, which changes nothing, configurations are the same with it and
// without.
inline ConfigKey newer(ConfigKey key, bool at_default) {
  key.in_hash = !at_default;
  return key;
}
inline ConfigKey required(ConfigKey key) {
  key.required_in_json = true;
  return key;
}
// A key of the model that config.json has and configurations have not.
inline ConfigKey from_data(const char* name) {
  ConfigKey key("model", name, "", "");
  key.from_data = true;
  return key;
}

}  // namespace foldgrad
