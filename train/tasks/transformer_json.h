// TransformerConfig as JSON, what config.json of a model directory holds behind its format:
//
//   {"model": {"source_vocabulary": 104, ..., "share_embeddings": "all"},
//    "norm": {"name": "un", "mask": true, "options": {"window": 4, "eps": 1e-05, ...}, "at": {"SITE": "affine"}}}
//
// `model` and `norm` have the names of TransformerConfig's members; docs/model_directory.md lists them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/shape.h"
#include "models/transformer/config.h"

namespace foldgrad {

// Every key, also those with their default; options of normalizers as numbers and booleans where they are.
nlohmann::ordered_json transformer_json(const TransformerConfig& config);

// Strict: keys that do not exist, values of another type, sizes above 2^31 - 1 (max_positions: 1,000,000) and what
// config.validate() or the normalizer refuse throw std::invalid_argument. Keys that matter in training alone may be
// left out (dropouts, initialization), as may `output_bias`, `norm.mask`, `norm.options` and `norm.at`.
TransformerConfig parse_transformer(const nlohmann::json& json);

// The embedding tables and the first and last layer of each stack, see Family::expected_parameters.
std::vector<std::pair<std::string, Shape>> expected_transformer_parameters(const nlohmann::json& json);

}  // namespace foldgrad
