// The certificate of a folded model, certificate.json: for each normalizer whether it was folded, and the model's
// distance from the trained one.
#pragma once
#include <nlohmann/json.hpp>

#include "models/fold/model.h"
#include "train/checks/model_checks.h"

namespace foldgrad {

// Returns
//   {"format": "foldgrad certificate", "format_version": 1, "options": {...}, "inputs": {...},
//    "difference": {"f64": {"absolute": ..., "relative": ...}, "f32": ...},     of the logits
//    "sites": [{"site", "normalizer", "outcome", "into": [...], "kept": [{"edge", "reason"}], "left", "difference"}]}
// "relative" is the greatest difference over the greatest value. For f64, both models compute in f64, after the
// original's parameters are converted. For f32, `folded` computes as it is stored. Throws NonFiniteError if a layer of
// either model gives numbers that are not finite: then there is nothing to certify. `foldgrad fold` adds "model" and
// "folded": the path and the SHA-256 of each file of the directory.
nlohmann::ordered_json certificate(Model& original, const FoldedModel& folded, const FoldOptions& options,
                                   const Probe& probe);

// Returns a summary as text: the folds and refusals of each site, then the differences of the logits.
std::string summary(const nlohmann::ordered_json& certificate);

}  // namespace foldgrad
