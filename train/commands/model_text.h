// The text that a command works on with a model: two files, or a split of the run that the model comes from.
#pragma once
#include "train/data/text/batches.h"
#include "train/data/text/parallel_text.h"
#include "train/data/text/vocabulary.h"

namespace CLI {
class App;
}

namespace foldgrad {

struct ModelTextOptions {
  std::string source, reference;  // files, below data_directory where that is given; both or neither
  std::string split, data_directory;
};

// --source, --reference, --split (this one by default), --data-dir.
void add_model_text_options(CLI::App& command, ModelTextOptions& options, const std::string& split);

// References are as Vocabulary::normalized() makes them. Throws std::invalid_argument for options that do not go
// together, FileError for text that cannot be read.
ParallelText read_model_text(const ModelTextOptions& options, const std::string& model, const Vocabulary& vocabulary);

// Throws FileError, naming the line, for a sentence longer than `most` tokens with its end.
EncodedPairs encode_model_text(const ParallelText& text, const Vocabulary& vocabulary, std::int64_t most);

}  // namespace foldgrad
