// The certificate of a folded model, certificate.json. It says which normalizers were folded, and how far the results
// of the folded model differ from the results of the trained model.
#pragma once
#include <nlohmann/json.hpp>

#include "models/fold/model.h"
#include "train/checks/model_checks.h"

namespace foldgrad {

// Returns
//   {"format": "foldgrad certificate", "format_version": 1, "options": {...}, "inputs": {...},
//    "difference": {"f64": {"absolute": ..., "relative": ...}, "f32": ...},     of the logits
//    "sites": [{"site", "normalizer", "outcome", "into": [...], "kept": [{"edge", "reason"}], "left", "difference"}]}
// "relative" is the largest absolute difference divided by the largest absolute value. For f64, certificate() copies
// the original in f64, folds the copy, and compares the two. For f32, it runs `original` and `folded` themselves in
// f32. Throws NonFiniteError if a result in either model is not finite, since then there is nothing to certify.
// `foldgrad fold` adds "model" and "folded", each with the path of the directory and the SHA-256 of its files.
nlohmann::ordered_json certificate(Model& original, const FoldedModel& folded, const FoldOptions& options,
                                   const Probe& probe);

// Returns a summary of the folds and refusals at each site, followed by the differences of the logits.
std::string summary(const nlohmann::ordered_json& certificate);

}  // namespace foldgrad
