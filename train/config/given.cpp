#include "train/config/given.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "engine/files/file.h"
#include "train/config/config.h"
#include "train/system/printable.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

// toml++ parses dotted keys recursively, so a key of 100,000 parts would overflow the stack. A key cannot span lines.
constexpr std::int64_t kMostDotsOfALine = 100;

// Returns the quotes with which a string begins here, or an empty view if none begins.
std::string_view opening_quotes(std::string_view toml) {
  for (const std::string_view quotes : {R"(""")", "'''", "\"", "'"})
    if (toml.starts_with(quotes)) return quotes;
  return "";
}

// Returns the number of the first line with too many dots outside strings and comments, or 0 if there is none.
std::int64_t line_of_deep_key(const std::string& toml) {
  std::int64_t line = 1, dots = 0;
  std::string_view end;  // ends the current string or comment
  for (std::size_t at = 0; at < toml.size(); ++at) {
    const std::string_view rest = std::string_view(toml).substr(at);
    if (rest[0] == '\n') {
      ++line, dots = 0;
      if (end.size() == 1) end = "";
    } else if (end.empty()) {
      end = rest[0] == '#' ? "\n" : opening_quotes(rest);
      if (!end.empty()) at += end.size() - 1;
      if (rest[0] == '.' && ++dots > kMostDotsOfALine) return line;
    } else if (end[0] == '"' && rest[0] == '\\') {
      at += !rest.substr(1).starts_with('\n');
    } else if (rest.starts_with(end)) {
      const std::size_t most = end.size() == 3 ? 5 : 1;  // a multi-line string may contain two quotes at its end
      at += std::min({rest.find_first_not_of(end[0]), rest.size(), most}) - 1;
      end = "";
    }
  }
  return 0;
}

// Returns the canonical path of a file, which is the same for all names of the file.
fs::path canonical(const std::string& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : found;
}

}  // namespace

void Given::refuse(const std::string& what) const { throw ConfigError(place + ": " + what); }

std::string Given::shown() const {
  if (!raw.empty() || !node) return in_quotes(raw);
  if (const auto* text = node->as_string()) return in_quotes(text->get());
  if (const auto* number = node->as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* number = node->as_integer()) return fmt::format("{}", number->get());
  if (const auto* flag = node->as_boolean()) return flag->get() ? "true" : "false";
  return node->is_table() ? "a table" : node->is_array() ? "an array" : "a date or time";
}

std::string Given::text(const std::string& must_be) const {
  if (node && node->is_string()) return node->as_string()->get();
  if (raw.empty() && node) refuse(fmt::format("{}, got {}", must_be, shown()));
  return raw;
}

std::string place_of(const toml::node& node) {
  return fmt::format("{}:{}", *node.source().path, node.source().begin.line);
}

toml::table parse_toml(const std::string& text, const std::string& name) try {
  if (const std::int64_t line = line_of_deep_key(text))
    throw ConfigError(fmt::format("{}:{}: a line must have at most {} dots", name, line, kMostDotsOfALine));
  return toml::parse(text, name);
} catch (const toml::parse_error& e) {
  throw ConfigError(fmt::format("{}:{}: {}", name, e.source().begin.line, e.description()));
}

std::vector<std::pair<std::string, const toml::node*>> values_below(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> all;
  for (const auto& [key, node] : table)
    if (const toml::table* inner = node.as_table())
      for (const auto& [more, value] : values_below(*inner))
        all.emplace_back(fmt::format("{}.{}", key.str(), more), value);
    else
      all.emplace_back(key.str(), &node);
  return all;
}

std::string text_of(const toml::node& value) {
  if (const auto* word = value.as_string()) return word->get();
  // toml++ would print all 17 digits.
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  std::ostringstream text;
  value.visit([&text](const auto& v) { text << v; });
  return text.str();
}

void GivenKeys::flatten(const toml::table& table, const std::string& prefix) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (node.is_table() && (prefix.empty() || prefix == "norm."))
      flatten(*node.as_table(), full + ".");
    else
      keys[full] = {&node, "", place_of(node)};
  }
}

void GivenKeys::add_file(const std::string& text, const std::string& name, std::vector<std::string> files) {
  toml::table& table = tables_.emplace_back(parse_toml(text, name));
  files.push_back(name);
  if (const toml::node* node = table.get("base")) {
    add_base({node, "", place_of(*node)}, files);
    table.erase("base");
  }
  flatten(table);
}

void GivenKeys::add_base(const Given& base, const std::vector<std::string>& files) {
  const std::string must_be = "base must be the path of a configuration", given = base.text(must_be);
  if (given.empty()) base.refuse(must_be + ", got \"\"");
  const std::string path = fs::path(files.back()).parent_path() / given;
  for (const std::string& file : files)
    if (canonical(file) == canonical(path))
      base.refuse(fmt::format("base forms a cycle: {} -> {}", fmt::join(files, " -> "), path));
  std::string text;
  try {
    text = read_file(path);
  } catch (const FileError& e) {
    base.refuse(fmt::format("base: {}", e.what()));
  }
  add_file(text, path, files);
}

void GivenKeys::add_setting(const std::string& setting) {
  const std::size_t equal = setting.find('=');
  const std::string key = setting.substr(0, equal);
  const auto dots = std::ranges::count(key, '.');
  if (equal == std::string::npos || dots < 1 || dots > 2)
    throw ConfigError(fmt::format("--set {}: must be SECTION.KEY=VALUE", setting));
  const std::string text = setting.substr(equal + 1);
  toml::table& value = tables_.emplace_back();
  try {
    if (line_of_deep_key(text) == 0) value = toml::parse("value = " + text);
  } catch (const toml::parse_error&) {
  }
  keys[key] = {value.size() == 1 ? value.get("value") : nullptr, text, "--set " + key};
}

}  // namespace foldgrad
