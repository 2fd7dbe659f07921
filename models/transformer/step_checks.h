// Checks of the inputs to decoding step by step, and the descent of its rows.
#pragma once
#include "models/transformer/inference.h"

namespace foldgrad {

// The tokens of padded ids. Throws std::invalid_argument for ids and masks that InferenceTransformer::encode refuses.
Sentences source_sentences(const TransformerConfig& config, const Tensor& source, const Tensor& source_mask);
// Throws std::invalid_argument for a normalizer whose statistics are over the tokens of a sentence.
void require_known_tokens(const Transformer& model);

// Which row of every step each row of the newest one descends from.
class StepHistory {
 public:
  // Rows of the beginning are sentences.
  StepHistory(const TransformerConfig& config, std::int64_t sentences);

  std::int64_t steps() const { return steps_; }
  const std::vector<std::int64_t>& sentences() const { return sentence_; }                // per row
  const std::vector<std::vector<std::int64_t>>& ancestors() const { return ancestors_; }  // [row][step]

  // Throws std::invalid_argument for what StepDecoder::step refuses.
  void check(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) const;
  // The next step, whose rows have these parents.
  void descend(const std::vector<std::int64_t>& parents);

 private:
  std::int64_t vocabulary_, positions_, steps_ = 0;
  std::vector<std::int64_t> sentence_;
  std::vector<std::vector<std::int64_t>> ancestors_;
};

}  // namespace foldgrad
