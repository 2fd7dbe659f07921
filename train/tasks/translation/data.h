// The text of a configuration's [data], its vocabulary and its ids.
#pragma once
#include <map>

#include "train/config/config.h"
#include "train/data/lines.h"
#include "train/tasks/translation/batches.h"
#include "train/tasks/translation/config.h"
#include "train/tasks/translation/vocabulary.h"

namespace foldgrad {

struct Corpus {
  ParallelText text;  // lower-cased if the configuration says so; scores are computed against it
  EncodedPairs pairs;
};

struct ExperimentData {
  Vocabulary vocabulary;
  Corpus train, valid;
  std::map<std::string, std::string> digests;  // SHA-256 by file name, of all files that were read
};

// Reads the split that data.train, data.valid or data.test names, or another pair of files in the directory. The
// embedded task has "train", "valid" and "test". Throws FileError.
ParallelText read_text(const DataConfig& config, const std::string& directory, const std::string& name);

EncodedPairs encode(const Vocabulary& vocabulary, const ParallelText& text);

// Reads the data of training and validation. Dictionaries and SentencePiece's model are made from the training files,
// unless the configuration names files or `vocabulary` is given, as for a resumed run. A shared embedding table has one
// dictionary for both sides. Throws FileError, also for a sentence longer than train.max_tokens or model.max_positions,
// and as DataConfig::validate() does.
ExperimentData read_data(const ExperimentConfig& config, const std::string& directory,
                         std::optional<Vocabulary> vocabulary = {});

}  // namespace foldgrad
