// VitConfig as JSON, what config.json of a model directory holds behind its format, as transformer_json.h has it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/shape.h"
#include "models/vit/config.h"

namespace foldgrad {

// Every key, also those with their default.
nlohmann::ordered_json vit_json(const VitConfig& config);

// Strict: keys that do not exist, values of another type, sizes above 2^31 - 1 and what config.validate() or the
// normalizer refuse throw std::invalid_argument. Keys that matter in training alone may be left out (dropouts,
// initialization), as may `class_names`, `image_mean` and `image_std`, which images of bytes alone need, `norm.options`
// and `norm.at`.
VitConfig parse_vit(const nlohmann::json& json);

// What the sizes are borne out by, see Family::expected_parameters.
std::vector<std::pair<std::string, Shape>> expected_vit_parameters(const nlohmann::json& json);

}  // namespace foldgrad
