// A run's configuration, as text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace foldgrad {

// The text of a file of a run; empty without one: a run that was copied in part, or is just beginning, may lack it.
std::string text_or_nothing(const std::string& path);

// The settings of the run in this directory, text by key: {"train.lr": "0.0005", ...}; empty without a config.toml.
// Throws FileError where that is no TOML.
nlohmann::ordered_json settings_of(const std::string& run);

}  // namespace foldgrad
