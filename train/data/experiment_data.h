// The text that [data] of a configuration names, and its ids.
#pragma once
#include <memory>

#include "train/config.h"
#include "train/data/batches.h"
#include "train/data/parallel_text.h"

namespace foldgrad {

struct Corpus {
  ParallelText text;  // as in the files
  EncodedPairs pairs;
};

struct ExperimentData {
  std::unique_ptr<Dictionary> source, target;
  Corpus train, valid;
};

// Where the files are: `flag` if it is not empty, data.directory, $FOLDGRAD_DATA, the current directory.
std::string data_directory(const DataConfig& config, const std::string& flag);

// Words come from the training files; with one table for both sides, so does one dictionary. Throws FileError.
ExperimentData read_data(const ExperimentConfig& config, const std::string& directory);

}  // namespace foldgrad
