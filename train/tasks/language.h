// Learning to predict a text: windows of it, the cross entropy of every next token, bits per character.
#pragma once
#include "models/gpt/gpt.h"
#include "train/data/language/language_data.h"
#include "train/data/language/windows.h"
#include "train/loop/task.h"
#include "train/tasks/families.h"

namespace foldgrad {

struct LanguageScores {
  double loss = 0;                // [LM-1] -log p of the next token, in nats, mean over all tokens but the first
  double perplexity = 0;          // [LM-2] exp(loss)
  double bits_per_character = 0;  // [LM-3] loss tokens / (ln 2 characters): whatever a token is, what a character costs
  std::int64_t tokens = 0, characters = 0;

  // Bits per character decide.
  Validation validation() const;
};

// Scores in windows of the model's context, each of which begins without what stands before it. Ranks, if there are
// several, take batches of them in turns.
LanguageScores score_text(Model& model, const TextVocabulary& vocabulary, const std::string& text, std::int64_t batch,
                          Communicator* communicator = nullptr);

// RUN/samples/step-*.txt: what the model writes after some passages of a text, the same at every validation. Empty for
// a model whose normalizers mix tokens, since it cannot write.
std::string written_samples(Gpt& model, const TextVocabulary& vocabulary, const Ids& text);

class Language final : public Task {
 public:
  // Throws std::invalid_argument for data that Windows refuses.
  Language(std::unique_ptr<Model> model, LanguageData data, const ExperimentConfig& config);

  Gpt& model() override { return static_cast<Gpt&>(*model_); }
  Examples next() override;
  std::int64_t batches_per_epoch() const override { return batches_.per_epoch(); }
  DataCursor cursor() const override { return batches_.cursor(); }
  void seek(DataCursor cursor) override { batches_.seek(cursor); }
  double label_smoothing() const override { return label_smoothing_; }
  Validation validate(Communicator* communicator) override;
  std::string deciding_score() const override { return "bits_per_character"; }
  bool smaller_is_better() const override { return true; }
  std::string unit_of_work() const override { return "tokens"; }
  void write_companions(const std::string& directory) const override;
  std::map<std::string, std::string> data_digests() const override { return data_.digests; }

 private:
  std::unique_ptr<Model> model_;
  LanguageData data_;
  const LanguageConfig config_;
  const double label_smoothing_;
  Ids valid_;
  Windows batches_;
};

// The row of the task (families.h). Files for `foldgrad run` hold ids, i64 or i32 [sequences, tokens]; results are
// logits. Examples are the windows of a text, of the model's context each.
extern const TaskKind kLanguage;

// Loads the vocabulary of a model's directory, whose size must be that of `config`. Throws CheckpointError.
TextVocabulary load_text_vocabulary(const std::string& directory, const GptConfig& config);

}  // namespace foldgrad
