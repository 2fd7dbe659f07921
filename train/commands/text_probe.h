// Text on which a model and its folded form are compared.
#pragma once
#include "models/transformer/config.h"
#include "train/checks/probe.h"

namespace foldgrad {

// The first lines of two files, at most 64, in the vocabulary of the model at `path`. Throws FileError and
// CheckpointError.
Probe text_probe(const std::string& source, const std::string& target, const std::string& path,
                 const TransformerConfig& config);

}  // namespace foldgrad
