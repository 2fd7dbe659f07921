#include "models/transformer/step_checks.h"

#include <algorithm>
#include <numeric>

namespace foldgrad {

Sentences source_sentences(const TransformerConfig& config, const Tensor& source, const Tensor& source_mask) {
  FOLDGRAD_CHECK(source.device() == Device::cpu && source_mask.device() == Device::cpu,
                 "inference: takes sources on cpu, got a source on {} and its mask on {}", name(source.device()),
                 name(source_mask.device()));
  Sentences sentences = Sentences::of("inference", source, source_mask);
  FOLDGRAD_CHECK(sentences.rows.longest() <= config.max_positions,
                 "inference: sentences must have at most max_positions = {} tokens, got {}", config.max_positions,
                 sentences.rows.longest());
  for (const std::int64_t id : sentences.ids.values<std::int64_t>())
    FOLDGRAD_CHECK(id >= 0 && id < config.source_vocabulary, "inference: ids must be in [0, {}), got {}",
                   config.source_vocabulary, id);
  return sentences;
}

void require_known_tokens(const Transformer& model) {
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(!norm->mixes_tokens(),
                   "decoding: {} ({}) has statistics over the tokens of a sentence, which are not known yet",
                   norm->site(), norm->info().name);
}

StepHistory::StepHistory(const TransformerConfig& config, std::int64_t sentences)
    : vocabulary_(config.target_vocabulary),
      positions_(config.max_positions),
      sentence_(std::size_t(sentences)),
      ancestors_(std::size_t(sentences)) {
  std::iota(sentence_.begin(), sentence_.end(), std::int64_t(0));
}

void StepHistory::check(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) const {
  FOLDGRAD_CHECK(tokens.size() == parents.size(), "decoding: needs one parent per token, got {} for {}", parents.size(),
                 tokens.size());
  FOLDGRAD_CHECK(steps_ < positions_, "decoding: there are max_positions = {} steps", positions_);
  for (std::size_t r = 0; r < parents.size(); ++r) {
    FOLDGRAD_CHECK(parents[r] >= 0 && parents[r] < std::int64_t(sentence_.size()),
                   "decoding: parents must be in [0, {}), got {} for row {}", sentence_.size(), parents[r], r);
    FOLDGRAD_CHECK(tokens[r] >= 0 && tokens[r] < vocabulary_, "decoding: tokens must be in [0, {}), got {} for row {}",
                   vocabulary_, tokens[r], r);
  }
}

void StepHistory::descend(const std::vector<std::int64_t>& parents) {
  std::vector<std::int64_t> sentence;
  std::vector<std::vector<std::int64_t>> ancestors;
  for (std::size_t r = 0; r < parents.size(); ++r) {
    sentence.push_back(sentence_[std::size_t(parents[r])]);
    ancestors.push_back(ancestors_[std::size_t(parents[r])]);
    ancestors.back().push_back(std::int64_t(r));
  }
  sentence_ = std::move(sentence);
  ancestors_ = std::move(ancestors);
  ++steps_;
}

}  // namespace foldgrad
