// Evaluation of a trained model: its loss on other text, and its translations.
#pragma once
#include "models/transformer/beam_search.h"
#include "train/data/text/batches.h"

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

}  // namespace foldgrad
