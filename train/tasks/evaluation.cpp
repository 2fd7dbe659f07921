#include "train/tasks/evaluation.h"

#include <cmath>

namespace foldgrad {

ValidationLoss validation_loss(Transformer& model, Batches& batches, DType dtype) {
  ValidationLoss result;
  Tape tape(/*recording=*/false);
  batches.seek({});
  double sum = 0;
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const Batch batch = batches.next();
    const Var loss = model.loss(batch.sentences, {.tape = tape, .dtype = dtype}, /*label_smoothing=*/0);
    sum += loss.value().item();
    result.target_tokens += batch.target_tokens;
    tape.clear();
  }
  result.loss = sum / double(result.target_tokens);  // [VAL-1]
  result.perplexity = std::exp(result.loss);         // [VAL-2]
  return result;
}

std::vector<Hypothesis> best_hypotheses(const InferenceTransformer& model, const std::vector<Ids>& sources,
                                        const DecodingOptions& options, std::int64_t max_tokens) {
  // Batches are of pairs; as their own targets, sources are grouped by length.
  Batches batches({sources, sources}, {.max_tokens = max_tokens, .multiple = 1, .shuffle = false});
  std::vector<Hypothesis> best(sources.size());
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const Batch batch = batches.next();
    const auto results = beam_search(model, batch.sentences.source, batch.sentences.source_mask, options);
    for (std::size_t row = 0; row < results.size(); ++row) best[std::size_t(batch.pairs[row])] = results[row].at(0);
  }
  return best;
}

std::vector<Ids> translations(const InferenceTransformer& model, const std::vector<Ids>& sources,
                              const DecodingOptions& options, std::int64_t max_tokens) {
  std::vector<Ids> all;
  for (Hypothesis& best : best_hypotheses(model, sources, options, max_tokens)) all.push_back(std::move(best.ids));
  return all;
}

}  // namespace foldgrad
