// The task of translation: trains on pairs of sentences with the label-smoothed cross entropy, and scores translations;
// BLEU selects checkpoints.
#pragma once
#include "models/transformer/beam_search.h"
#include "train/checks/model_checks.h"
#include "train/loop/task.h"
#include "train/tasks/families.h"
#include "train/tasks/translation/batches.h"
#include "train/tasks/translation/bleu.h"
#include "train/tasks/translation/data.h"

namespace foldgrad {

struct ValidationLoss {
  double loss = 0;        // [VAL-1] -log p of the reference, per target token including the end, in nats; not smoothed
  double perplexity = 0;  // [VAL-2] exp(loss)
  std::int64_t target_tokens = 0;
};

// Computes the loss over one epoch of `batches`. Here and below, several ranks divide the batches among themselves.
ValidationLoss validation_loss(Transformer& model, Batches& batches, Communicator* communicator = nullptr);

// Returns the best hypothesis for each source, without kEos, in the order of the sources. Sources end with kEos. A
// source that is only kEos is not translated: its hypothesis is empty and has score 0. In each batch, the number of
// sources times the length of the longest source is at most max_tokens. If logits are not finite, the hypothesis is
// empty and has score minus infinity. Throws std::invalid_argument if Batches or beam_search does.
std::vector<Hypothesis> best_hypotheses(const InferenceTransformer& model, const std::vector<Ids>& sources,
                                        const DecodingOptions& options, std::int64_t max_tokens = 4096,
                                        Communicator* communicator = nullptr);

struct TranslationScores {
  ValidationLoss loss;
  Bleu sacre, tokenized;  // sacreBLEU with 13a tokenization; multi-bleu on whitespace-separated words
  ChrF chrf;
  double exact = 0;  // percentage of lines that equal the reference

  // Returns the scores; BLEU is the deciding one. Leaves `samples` empty.
  Validation validation() const;
};

TranslationScores score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references);

// Returns the examples of a batch, on the CPU.
Examples examples_of(const Batch& batch);

std::unique_ptr<Task> make_translation(ExperimentConfig config, const std::string& data_directory,
                                       const std::string& earlier, Device device);

// The task's functions (families.h). An input file of `foldgrad run` has tensors `source` and `input`, i64 or i32
// [sentences, tokens], and optionally their masks, u8. The results are `logits` and `memory`, the encoder's output.
// Examples are pairs of sentences; the length of a pair is the length of the longer one. Evaluation and training inputs
// throw FileError, which names the line, if a sentence is longer than model.max_positions or max_tokens.
extern const TaskKind kTranslation;

// Checks that both models translate greedily to the same sentences. The check is skipped if a normalizer computes
// statistics over the tokens of a sentence, since decoding sees only one token at a time.
CheckResult check_translations(Transformer& model, Transformer& folded, const Sentences& sources);

// Loads the vocabulary of a model's directory. Throws CheckpointError if loading fails or the sizes differ from
// `config`.
Vocabulary load_vocabulary(const std::string& directory, const TransformerConfig& config);

}  // namespace foldgrad
