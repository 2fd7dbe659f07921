// Keys of a language model: a text, and batches of windows.
#pragma once
#include "train/config/section.h"

namespace foldgrad {

enum class LanguageTask { language };
constexpr auto names_of(LanguageTask) { return std::array{"language"}; }

enum class TextTokenizer { characters, bpe };
constexpr auto names_of(TextTokenizer) { return std::array{"characters", "bpe"}; }

struct LanguageConfig {
  LanguageTask task = LanguageTask::language;
  std::string directory, train, valid, test;
  TextTokenizer tokenizer = TextTokenizer::characters;
  std::int64_t vocabulary = 1000, batch = 64;
  bool operator==(const LanguageConfig&) const = default;
};

void visit_keys(KeysOf<LanguageConfig> auto& l, const auto& v) {
  const auto data = keys_in("data", v), aside = keys_in("data", v, off_trajectory), train = keys_in("train", v);
  data(l.task, "task", "", "Task: predict the next token of a text");
  data(l.directory, "directory", "", "Directory containing the files, absolute or relative to --data-dir");
  data(l.train, "train", "",
       "Training text; if empty, all files NAME.txt and NAME.md in the directory except data.valid and data.test");
  data(l.valid, "valid", "", "Validation text; if empty, the last tenth of the training text");
  aside(l.test, "test", "", "Text for `foldgrad eval`; if empty, the validation text");
  data(l.tokenizer, "tokenizer", "", "Kind of tokens: characters, or byte-pair encoding pieces (bpe)");
  data(l.vocabulary, "vocabulary", "pieces", "Size of the vocabulary to learn from the training text (bpe)",
       at_least(5));
  train(l.batch, "batch", "sequences", "Number of sequences per batch, each with model.context tokens", at_least(1));
}

}  // namespace foldgrad
