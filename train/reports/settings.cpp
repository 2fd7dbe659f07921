#include "train/reports/settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sstream>

#include "engine/files/file.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

void flatten(const toml::table& table, const std::string& prefix, nlohmann::ordered_json& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", settings);
    } else if (const auto* text = node.as_string()) {
      settings[name] = text->get();
    } else if (const auto* number = node.as_floating_point()) {
      settings[name] = fmt::format("{}", number->get());  // toml++ would write 0.003 with 17 digits
    } else {
      std::ostringstream value;
      node.visit([&](const auto& v) { value << v; });
      settings[name] = value.str();
    }
  }
}

}  // namespace

std::string text_or_nothing(const std::string& path) try { return read_file(path); } catch (const FileError&) {
  return "";
}

// Not through read_config(): runs of other versions, which know other keys, are to be seen too.
nlohmann::ordered_json settings_of(const std::string& run) {
  const std::string path = RunDirectory(run).config();
  try {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    flatten(toml::parse(text_or_nothing(path)), "", settings);
    return settings;
  } catch (const toml::parse_error& e) {
    throw FileError(path, std::string("is no TOML: ") + std::string(e.description()));
  }
}

}  // namespace foldgrad
