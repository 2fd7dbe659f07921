// TransformerConfig as JSON, the config.json of a model directory:
//
//   {"format": "foldgrad transformer", "format_version": 1,
//    "model": {"source_vocabulary": 104, ..., "share_embeddings": "all"},
//    "norm": {"name": "un", "mask": true, "options": {"window": 4, "eps": 1e-05, ...}, "at": {"SITE": "affine"}}}
//
// `model` and `norm` have the names of TransformerConfig's members; docs/model_directory.md lists them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "models/transformer/config.h"

namespace foldgrad {

// Every key, also those with their default; options of normalizers as numbers and booleans where they are.
nlohmann::ordered_json model_config_json(const TransformerConfig& config);

// Strict: keys that do not exist, values of another type, sizes above 2^31 - 1 (max_positions: 1,000,000) and what
// config.validate() or the normalizer refuse throw std::invalid_argument. Keys that matter in training alone may be
// left out (dropouts, initialization), as may `output_bias`, `norm.mask`, `norm.options` and `norm.at`.
TransformerConfig parse_model_config(const nlohmann::json& json);

}  // namespace foldgrad
