// The configuration of a model that tells images apart as JSON, as config.json of a model directory holds it.
#pragma once
#include "engine/shape.h"
#include "models/cct/config.h"
#include "models/vit/config.h"
#include "train/tasks/config_json.h"

namespace foldgrad {

// Every key, also those with their default.
template <class Config>
nlohmann::ordered_json image_json(const Config& config) {
  nlohmann::ordered_json all = config_json(config);
  if (!config.class_names.empty()) all["model"]["class_names"] = config.class_names;
  all["model"]["image_mean"] = config.pixels.mean;
  all["model"]["image_std"] = config.pixels.std;
  return all;
}

// Strict: keys that do not exist, values of another type, sizes above 2^31 - 1 and what config.validate() or the
// normalizer refuse throw std::invalid_argument. Keys that matter in training alone may be left out (dropouts,
// initialization), as may `class_names`, `image_mean` and `image_std`, which images of bytes alone need, `norm.options`
// and `norm.at`.
template <class Config>
Config parse_image_json(const nlohmann::json& root) {
  const auto of_images = [](Config& config, JsonSection& model) {
    model.read("class_names", config.class_names, false);
    model.read("image_mean", config.pixels.mean, false);
    model.read("image_std", config.pixels.std, false);
  };
  const auto config = parse_config_json<Config>(root, of_images);
  config.validate();
  return config;
}

// What the sizes are borne out by, see Family::expected_parameters.
using ExpectedParameters = std::vector<std::pair<std::string, Shape>>;
ExpectedParameters expected_parameters(const VitConfig& config);
ExpectedParameters expected_parameters(const CctConfig& config);

}  // namespace foldgrad
