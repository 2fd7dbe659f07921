// The text that [data] of a configuration names, its vocabulary and its ids.
#pragma once
#include <map>

#include "train/config/config.h"
#include "train/data/lines.h"
#include "train/tasks/translation/batches.h"
#include "train/tasks/translation/config.h"
#include "train/tasks/translation/vocabulary.h"

namespace foldgrad {

struct Corpus {
  ParallelText text;  // lower-cased if the configuration says so; scores are computed against this text
  EncodedPairs pairs;
};

struct ExperimentData {
  Vocabulary vocabulary;
  Corpus train, valid;
  std::map<std::string, std::string> digests;  // SHA-256 by file name, of all files that were read
};

// Reads the split that data.train, data.valid or data.test names, or another pair of files in the directory. The
// built-in task has "train", "valid" and "test". Throws FileError.
ParallelText read_text(const DataConfig& config, const std::string& directory, const std::string& name);

EncodedPairs encode(const Vocabulary& vocabulary, const ParallelText& text);

// Reads the data for training and validation. Makes dictionaries or a SentencePiece model from the training files,
// unless the configuration names files or `vocabulary` is given, as for a resumed run. With a shared embedding table,
// both sides have the same dictionary. Throws FileError if reading fails or a sentence is longer than train.max_tokens
// or model.max_positions, and ConfigError as DataConfig::validate() does.
ExperimentData read_data(const ExperimentConfig& config, const std::string& directory,
                         std::optional<Vocabulary> vocabulary = {});

}  // namespace foldgrad
