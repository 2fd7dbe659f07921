// The row of language models in the table of families (families.h), and the vocabulary of such a model.
#pragma once
#include "models/gpt/gpt.h"
#include "train/data/language/text_vocabulary.h"
#include "train/tasks/families.h"

namespace foldgrad {

// Files for `foldgrad run` hold ids, i64 or i32 [sequences, tokens]; results are logits. Examples are the windows of a
// text, of the model's context each.
extern const TaskKind kLanguage;

// Loads the vocabulary of a model's directory, whose size must be that of `config`. Throws CheckpointError.
TextVocabulary load_text_vocabulary(const std::string& directory, const GptConfig& config);

}  // namespace foldgrad
