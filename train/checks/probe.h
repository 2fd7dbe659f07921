// Sentences on which models are compared: random ids, or text.
#pragma once
#include "models/transformer/transformer.h"
#include "train/data/text/dictionary.h"

namespace foldgrad {

struct Probe {
  TranslationBatch batch;
  std::string description;  // "8 sentences of random ids, seed 1"
  std::string digest;       // SHA-256 of the ids
};

// Sources padded with config.pad behind; inputs begin with kEos, targets are what follows.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad);

// Lengths from 1 to `tokens`, and two places less than the model has, so that padding can be added. Equal seeds give
// equal ids.
Probe random_probe(const TransformerConfig& config, std::uint64_t seed = 1, int sentences = 8, int tokens = 16);
// The first lines of two files, at most 64, in the vocabulary of the model at `path`. Throws FileError and
// CheckpointError.
Probe text_probe(const std::string& source, const std::string& target, const std::string& path,
                 const TransformerConfig& config);

}  // namespace foldgrad
