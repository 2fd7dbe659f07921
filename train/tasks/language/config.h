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
  data(l.task, "task", "", "Text, whose next token is predicted");
  data(l.directory, "directory", "", "Directory of the files, below --data-dir or absolute");
  data(l.train, "train", "",
       "File of text; empty: all files NAME.txt and NAME.md of the directory except data.valid and data.test");
  data(l.valid, "valid", "", "Validation text; empty: the last tenth of the training text");
  aside(l.test, "test", "", "Text for `foldgrad eval`; empty: the validation text");
  data(l.tokenizer, "tokenizer", "", "Tokens: characters, or pieces of byte-pair encoding");
  data(l.vocabulary, "vocabulary", "pieces", "Size of the vocabulary, learned from the training text (bpe)",
       at_least(5));
  train(l.batch, "batch", "sequences", "Sequences of a batch, of model.context tokens each", at_least(1));
}

}  // namespace foldgrad
