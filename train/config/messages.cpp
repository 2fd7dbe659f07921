#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "models/normalizers/normalizer.h"
#include "train/config/config.h"

namespace foldgrad {

std::string with_keys(const ExperimentConfig& config, const std::string& message) {
  const std::string& norm = config.blocks().normalizer;
  const std::size_t colon = message.find(": ");
  const std::string who = message.substr(0, colon);
  if (colon == message.npos || (who != config.family && who != norm)) return message;
  std::map<std::string, std::string> keys;  // the full name of each key, by its name in messages
  if (who == norm) {
    for (const NormalizerOption& option : normalizer_info(norm).options)
      keys[option.name] = fmt::format("norm.{}.{}", norm, option.name);
  } else {
    for (const auto& [key, value] : keys_of(config)) keys.emplace(key.name, key.full_name());
    keys["normalizer"] = "norm.name";
  }
  std::istringstream text(message.substr(colon + 2));
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const bool begins_with_key = keys.contains(words.at(0));
  for (std::size_t i = 0; i < words.size(); ++i)
    if (keys.contains(words[i]) && (i == 0 || (i + 1 < words.size() && words[i + 1] == "="))) words[i] = keys[words[i]];
  const std::string place = who == norm ? fmt::format("norm.name = \"{}\": ", norm) : "[model]: ";
  return fmt::format("{}{}", begins_with_key ? "" : place, fmt::join(words, " "));
}

}  // namespace foldgrad
