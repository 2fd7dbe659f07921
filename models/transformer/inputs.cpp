// Inputs made up for a check: the smallest that the model takes, and random sentences.
#include <algorithm>
#include <random>

#include "models/transformer/transformer.h"

namespace foldgrad {

NamedTensors Transformer::smallest_inputs() const {
  const std::int64_t id = config_.pad == 0 ? 1 % config_.source_vocabulary : 0, pad = config_.pad;
  const bool two = config_.max_positions > 1;
  const Tensor ids = two ? Tensor::of<std::int64_t>({2, 2}, {id, id, id, pad}) : Tensor::of<std::int64_t>({1, 1}, {id});
  const Tensor mask = two ? Tensor::of<std::uint8_t>({2, 2}, {1, 1, 1, 0}) : Tensor::of<std::uint8_t>({1, 1}, {1});
  return TranslationBatch{ids, mask, ids, mask, ids}.named();
}

NamedTensors Transformer::random_inputs(std::uint64_t seed) const {
  constexpr int kSentences = 8;
  constexpr std::int64_t kTokens = 16;
  std::mt19937_64 random(seed);
  const std::int64_t most = std::clamp<std::int64_t>(config_.max_positions - 2, 1, kTokens);
  const auto side = [&](std::int64_t vocabulary) {
    std::vector<Ids> rows;
    for (int s = 0; s < kSentences; ++s) {
      Ids ids(1 + random() % std::uint64_t(most));
      // All but padding, by counting on from it.
      for (auto& id : ids)
        id = vocabulary < 2 ? 0
                            : (config_.pad + 1 + std::int64_t(random() % std::uint64_t(vocabulary - 1))) % vocabulary;
      rows.push_back(std::move(ids));
    }
    return rows;
  };
  const std::vector<Ids> sources = side(config_.source_vocabulary), targets = side(config_.target_vocabulary);
  return make_batch(sources, targets, config_.pad).named();
}

}  // namespace foldgrad
