// The task of language modelling: trains on windows of a text with the cross entropy of each next token, and scores
// bits per character.
#pragma once
#include "models/gpt/gpt.h"
#include "train/tasks/families.h"
#include "train/tasks/language/vocabulary.h"

namespace foldgrad {

struct LanguageScores {
  double loss = 0;                // [LM-1] -log p of the next token, in nats, mean over all tokens but the first
  double perplexity = 0;          // [LM-2] exp(loss)
  double bits_per_character = 0;  // [LM-3] loss tokens / (ln 2 characters): the cost of a character, for any vocabulary
  std::int64_t tokens = 0, characters = 0;

  // Returns the scores; bits per character is the deciding one.
  Validation validation() const;
};

// Scores the text in windows as long as the model's context; a window does not see the text before it. Several ranks
// divide the batches among themselves.
LanguageScores score_text(Model& model, const TextVocabulary& vocabulary, const std::string& text, std::int64_t batch,
                          Communicator* communicator = nullptr);

// Returns the text of RUN/samples/step-*.txt: the model's continuations of a few passages, which are the same at every
// validation. The text is empty for a model whose normalizers mix tokens, since the model cannot generate.
std::string written_samples(Gpt& model, const TextVocabulary& vocabulary, const Ids& text);

// The task's functions (families.h). An input file of `foldgrad run` has a tensor `ids`, i64 or i32 [sequences,
// tokens]; the result is `logits`. Examples are the windows of a text, each as long as the model's context.
extern const TaskKind kLanguage;

// Loads the vocabulary of a model's directory. Throws CheckpointError if loading fails or the size is not
// config.vocabulary.
TextVocabulary load_text_vocabulary(const std::string& directory, const GptConfig& config);

}  // namespace foldgrad
