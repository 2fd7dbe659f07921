// The values that files and settings give for the keys of a configuration, each with its place.
#pragma once
#include <toml++/toml.h>

#include <list>
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

// A value and its place. A setting that is not TOML is text without quotes.
struct Given {
  const toml::node* node = nullptr;
  std::string raw;    // of a setting
  std::string place;  // FILE:LINE or --set SECTION.KEY

  // Throws ConfigError: "PLACE: WHAT".
  [[noreturn]] void refuse(const std::string& what) const;
  // Returns the value for quoting in messages.
  std::string shown() const;
  // Returns text, given with or without quotes. Refuses other values: "MUST_BE, got ...".
  std::string text(const std::string& must_be) const;
};

// Returns FILE:LINE of a value that parse_toml() has read.
std::string place_of(const toml::node& node);

// Returns the table of `text`; `name` is the file's name in messages. Throws ConfigError for invalid TOML.
toml::table parse_toml(const std::string& text, const std::string& name);

// Returns every value in a table and in its subtables, with the keys that lead to it, joined by dots.
std::vector<std::pair<std::string, const toml::node*>> values_below(const toml::table& table);
// Returns a value in the form that --set takes and reports show.
std::string text_of(const toml::node& value);

class GivenKeys {
 public:
  // Adds the keys of a file; they replace those of the file that its key `base` names. `files`: the chain of files
  // whose bases led to this one. Throws ConfigError.
  void add_file(const std::string& text, const std::string& name, std::vector<std::string> files = {});
  // Adds SECTION.KEY=VALUE or norm.NAME.OPTION=VALUE, which replaces an earlier value. Throws ConfigError.
  void add_setting(const std::string& setting);

  std::map<std::string, Given> keys;  // by SECTION.KEY, or norm.NAME.OPTION

 private:
  void add_base(const Given& base, const std::vector<std::string>& files);
  void flatten(const toml::table& table, const std::string& prefix = "");

  std::list<toml::table> tables_;  // which the values point into
};

}  // namespace foldgrad
