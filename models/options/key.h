// A key of a configuration: its section, help and values, and whether it affects training.
#pragma once
#include <concepts>
#include <cstdint>

#include "engine/dtype.h"
#include "models/options/names.h"
#include "models/options/option.h"

namespace foldgrad {

constexpr std::int64_t kMostOfASize = INT32_MAX;

struct ConfigKey : Option {
  std::string section;
  bool trajectory = true;         // affects the trained weights
  bool required_in_json = false;  // config.json must have it, since inference depends on it
  bool from_data = false;         // not a key of configurations; set by the data or by folding
  bool newer = false;             // added after 0.2.0; config_hash() ignores its default

  ConfigKey(const char* section, const char* name, const char* unit, const char* help, Range range = {})
      : Option{name, help, Kind::text, range, {}, unit}, section(section) {}
  ConfigKey(const char* section, const char* name, const char* help, std::vector<std::string> choices)
      : Option{name, help, Kind::choice, {}, std::move(choices)}, section(section) {}

  std::string full_name() const { return section + "." + name; }
  // Sets `kind` from the type of the key's member; text with choices stays a choice.
  template <class Member>
  void set_kind(const Member&) {
    if constexpr (std::is_enum_v<Member>) {
      kind = Kind::choice;
      for (const Member value : values_of(Member())) choices.push_back(foldgrad::name(value));
    }
    if (std::is_same_v<Member, double>) kind = Kind::number;
    if (std::is_same_v<Member, std::int64_t>) kind = Kind::integer;
    if (std::is_same_v<Member, std::vector<std::int64_t>>) kind = Kind::integers;
    if (std::is_same_v<Member, std::vector<std::string>>) kind = Kind::texts;
    if (std::is_same_v<Member, bool>) kind = Kind::boolean;
  }
};

// Satisfied by the configuration struct `Config`, const or not.
template <class Section, class Config>
concept KeysOf = std::same_as<std::remove_const_t<Section>, Config>;

// Returns a function that makes a key of `section`, applies `mark` if given, and passes the key to the visitor:
//   keys_in("train", visitor)(member, "lr", "", "Peak learning rate", above(0));
auto keys_in(const char* section, const auto& visitor, ConfigKey (*mark)(ConfigKey) = nullptr) {
  return [=, &visitor](auto& member, const char* name, const auto&... rest) {
    const ConfigKey key(section, name, rest...);
    visitor(member, mark ? mark(key) : key);
  };
}

inline ConfigKey off_trajectory(ConfigKey key) {
  key.trajectory = false;
  return key;
}
inline ConfigKey newer(ConfigKey key) {
  key.newer = true;
  return key;
}
inline ConfigKey required(ConfigKey key) {
  key.required_in_json = true;
  return key;
}
// Makes a key of the model that is in config.json but not in configurations.
inline ConfigKey from_data(const char* name) {
  ConfigKey key("model", name, "", "");
  key.from_data = true;
  return key;
}

}  // namespace foldgrad
