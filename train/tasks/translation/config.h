// Keys of translation: texts, batches, and decoding for validation.
#pragma once
#include "train/config/section.h"

namespace foldgrad {

enum class TextTask { text, numbers };
constexpr auto names_of(TextTask) { return std::array{"text", "numbers"}; }

enum class Tokenizer { words, bpe, sentencepiece };
constexpr auto names_of(Tokenizer) { return std::array{"words", "bpe", "sentencepiece"}; }

struct DataConfig {
  TextTask task = TextTask::text;
  std::string directory, train = "train", valid = "valid", test = "test", source = "de", target = "en";
  bool lowercase = false;
  Tokenizer tokenizer = Tokenizer::words;
  std::string bpe_codes, source_dictionary, target_dictionary, sentencepiece_model;
  std::int64_t vocabulary = 8000, train_pairs = 0, valid_pairs = 0, max_length = 0;
  double max_ratio = 0;
  std::int64_t max_tokens = 4096;
  std::int64_t beam = 5, max_length_b = 10;
  double length_penalty = 1, max_length_a = 1.2;

  // Throws ConfigError for keys that contradict each other.
  void validate() const;
  bool operator==(const DataConfig&) const = default;
};

void visit_keys(KeysOf<DataConfig> auto& d, const auto& v) {
  const auto data = keys_in("data", v), aside = keys_in("data", v, off_trajectory), train = keys_in("train", v),
             validate = keys_in("validate", v);
  data(d.task, "task", "", "Source of the sentences: text files, or generated German number words");
  data(d.directory, "directory", "", "Directory containing the files, absolute or relative to --data-dir");
  data(d.train, "train", "", "Training files: NAME.SOURCE and NAME.TARGET");
  aside(d.valid, "valid", "", "Validation files");
  aside(d.test, "test", "", "Test files");
  data(d.source, "source", "", "Source language; also the extension of its files");
  data(d.target, "target", "", "Target language; also the extension of its files");
  data(d.lowercase, "lowercase", "", "Lower-case all text");
  data(d.tokenizer, "tokenizer", "", "Kind of tokens");
  data(d.bpe_codes, "bpe_codes", "", "File with the BPE merges in data.directory (bpe)");
  const char* dictionary =
      "fairseq dict.txt in data.directory; if empty, a dictionary is built from the training files";
  data(d.source_dictionary, "source_dictionary", "", dictionary);
  data(d.target_dictionary, "target_dictionary", "", dictionary);
  data(d.sentencepiece_model, "sentencepiece_model", "",
       "SentencePiece model file in data.directory; if empty, a model is trained on the training files");
  data(d.vocabulary, "vocabulary", "pieces", "Size of the vocabulary shared by both languages (sentencepiece)",
       at_least(5));
  data(d.train_pairs, "train_pairs", "pairs", "Number of training pairs to use; 0 means all", at_least(0));
  aside(d.valid_pairs, "valid_pairs", "pairs", "Number of validation pairs to use; 0 means all", at_least(0));
  data(d.max_length, "max_length", "tokens", "Maximum sentence length in a training pair; 0 means no limit",
       at_least(0));
  data(d.max_ratio, "max_ratio", "", "Maximum ratio of the two lengths in a training pair; 0 means no limit",
       at_least(0));
  train(d.max_tokens, "max_tokens", "tokens", "Maximum batch size, including padding", at_least(1));
  validate(d.beam, "beam", "hypotheses", "Beam width", within(1, 1000));
  validate(d.length_penalty, "length_penalty", "",
           "Length penalty: scores are divided by the length raised to this power", at_least(0));
  validate(
      d.max_length_a, "max_length_a", "",
      "Factor a in the length limit floor(a * source tokens + b) of a translation; the source length includes the end "
      "token, the limit does not",
      at_least(0));
  validate(d.max_length_b, "max_length_b", "tokens",
           "Constant b in the length limit floor(a * source tokens + b) of a translation", at_least(0));
}

}  // namespace foldgrad
