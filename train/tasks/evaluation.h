// Evaluation of a trained model: its loss on other text, its translations, and their scores as the log has them.
#pragma once
#include "models/transformer/beam_search.h"
#include "train/data/lines.h"
#include "train/data/text/batches.h"
#include "train/loop/task.h"
#include "train/scores/bleu.h"

namespace foldgrad {

struct ValidationLoss {
  double loss = 0;        // [VAL-1] -log p of the reference, per target token with the end, in nats; not smoothed
  double perplexity = 0;  // [VAL-2] exp(loss)
  std::int64_t target_tokens = 0;
};

// Over one epoch of `batches`, from its beginning. `dtype` is that of activations.
ValidationLoss validation_loss(Transformer& model, Batches& batches, DType dtype = DType::f32);

// The best hypothesis for each source, without its end, in the order of the sources. Sources end with kEos; max_tokens
// bounds sources times the longest of a batch. Where logits were not finite it is empty and scores minus infinity.
// Throws std::invalid_argument for what Batches and beam_search refuse.
std::vector<Hypothesis> best_hypotheses(const InferenceTransformer& model, const std::vector<Ids>& sources,
                                        const DecodingOptions& options, std::int64_t max_tokens = 4096);
// Its ids alone.
std::vector<Ids> translations(const InferenceTransformer& model, const std::vector<Ids>& sources,
                              const DecodingOptions& options, std::int64_t max_tokens = 4096);

struct TranslationScores {
  ValidationLoss loss;
  Bleu sacre, tokenized;  // sacreBLEU with 13a; multi-bleu on the words as they stand in the lines
  ChrF chrf;
  double exact = 0;  // percent of lines

  // BLEU decides. Without samples.
  Validation validation() const;
};

TranslationScores score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references);

// RUN/samples/step-*.txt: source, reference and hypothesis of up to ten sentences, the same at every validation.
std::string samples_text(const ParallelText& text, const Lines& hypotheses);

}  // namespace foldgrad
