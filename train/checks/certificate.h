// The certificate of a folded model, certificate.json. It says which normalizers were folded, and how far the folded
// model's results differ from those of the trained model.
#pragma once
#include <nlohmann/json.hpp>

#include "models/fold/model.h"
#include "train/checks/model_checks.h"

namespace foldgrad {

// Returns
//   {"format": "foldgrad certificate", "format_version": 1, "options": {...}, "inputs": {...},
//    "difference": {"f64": {"absolute": ..., "relative": ...}, "f32": ...},     of the logits
//    "sites": [{"site", "normalizer", "outcome", "into": [...], "kept": [{"edge", "reason"}], "left", "difference"}]}
// "relative" is the greatest difference divided by the greatest value. For f64, both models compute in f64, after the
// original's parameters are converted. For f32, `folded` computes as it is stored. Throws NonFiniteError if a layer of
// either model gives numbers that are not finite, since then there is nothing to certify. `foldgrad fold` adds "model"
// and "folded", each with the path of the directory and the SHA-256 of its files.
nlohmann::ordered_json certificate(Model& original, const FoldedModel& folded, const FoldOptions& options,
                                   const Probe& probe);

// Returns a summary of the folds and refusals at each site, followed by the differences of the logits.
std::string summary(const nlohmann::ordered_json& certificate);

}  // namespace foldgrad
