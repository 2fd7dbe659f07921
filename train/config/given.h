// The values that files and settings give to the keys of a configuration, with the place of each.
#pragma once
#include <toml++/toml.h>

#include <list>
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

// A value and its place. A setting whose value is not TOML is treated as a string without quotes.
struct Given {
  const toml::node* node = nullptr;
  std::string raw;    // the text of the setting
  std::string place;  // FILE:LINE or --set SECTION.KEY

  // Throws ConfigError with the message "PLACE: WHAT".
  [[noreturn]] void refuse(const std::string& what) const;
  // Returns the value as messages show it.
  std::string shown() const;
  // Returns a string that was given with or without quotes. Calls refuse("MUST_BE, got ...") for other values.
  std::string text(const std::string& must_be) const;
};

// Returns FILE:LINE of a value that parse_toml() has read.
std::string place_of(const toml::node& node);

// Parses `text`. `name` is the file's name in messages. Throws ConfigError if the TOML is invalid.
toml::table parse_toml(const std::string& text, const std::string& name);

// Returns every value in a table and its subtables, each with the keys that lead to it, joined by dots.
std::vector<std::pair<std::string, const toml::node*>> values_below(const toml::table& table);
// Returns a value in the notation of --set and of reports.
std::string text_of(const toml::node& value);

class GivenKeys {
 public:
  // Adds the keys of a file. They replace keys of its base, the file that its key `base` names. `files` is the chain of
  // files whose bases led to this one. Throws ConfigError.
  void add_file(const std::string& text, const std::string& name, std::vector<std::string> files = {});
  // Adds SECTION.KEY=VALUE or norm.NAME.OPTION=VALUE, which replaces an earlier value. Throws ConfigError.
  void add_setting(const std::string& setting);

  std::map<std::string, Given> keys;  // indexed by SECTION.KEY or norm.NAME.OPTION

 private:
  void add_base(const Given& base, const std::vector<std::string>& files);
  void flatten(const toml::table& table, const std::string& prefix = "");

  std::list<toml::table> tables_;  // own the nodes of `keys`
};

}  // namespace foldgrad
