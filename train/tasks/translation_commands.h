// The row of translation in the table of families (families.h), and the vocabulary of a model that translates.
#pragma once
#include "models/transformer/transformer.h"
#include "train/data/text/vocabulary.h"
#include "train/tasks/families.h"

namespace foldgrad {

// Files for `foldgrad run` hold source and input, i64 or i32 [sentences, tokens], and may hold their masks, u8; results
// are logits, and memory, the encoder's output. Examples are pairs of sentences, whose length is that of the longer.
// Evaluation and training inputs throw FileError, naming the line, for a sentence that is longer than the model takes
// or than max_tokens.
extern const TaskKind kTranslation;

// Loads the vocabulary of a model's directory, whose sizes must be those of `config`. Throws CheckpointError.
Vocabulary load_vocabulary(const std::string& directory, const TransformerConfig& config);

}  // namespace foldgrad
