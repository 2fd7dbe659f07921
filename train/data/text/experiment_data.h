// The text that [data] of a configuration names, its vocabulary and its ids.
#pragma once
#include <map>

#include "train/config/config.h"
#include "train/data/lines.h"
#include "train/data/text/batches.h"
#include "train/data/text/vocabulary.h"

namespace foldgrad {

struct Corpus {
  ParallelText text;  // lower-cased if the configuration says so; scores compare with it
  EncodedPairs pairs;
};

struct ExperimentData {
  Vocabulary vocabulary;
  Corpus train, valid;
  std::map<std::string, std::string> digests;  // by file name: SHA-256; of all files that were read
};

// Throws ConfigError for keys of [data] that do not go together.
void require_usable(const DataConfig& config);

// Reads one of data.train, data.valid, data.test, or another name of files in the directory. The embedded task has text
// for "train", "valid" and "test". Throws FileError.
ParallelText read_text(const DataConfig& config, const std::string& directory, const std::string& name);

EncodedPairs encode(const Vocabulary& vocabulary, const ParallelText& text);

// Reads the data of training and validation. Dictionaries and SentencePiece's model come from the training files unless
// the configuration names files, or `vocabulary` is given: that of the run which is resumed. With one table for both
// sides there is one dictionary. Throws FileError, also for a sentence that is longer than train.max_tokens or
// model.max_positions, and what require_usable() throws.
ExperimentData read_data(const ExperimentConfig& config, const std::string& directory,
                         std::optional<Vocabulary> vocabulary = {});

}  // namespace foldgrad
