// A Gpt for inference, one token at a time: keys and values of earlier tokens are kept, not computed again. Unrecorded;
// on the CPU with weights packed once (models/blocks/packed_weights.h).
//
//   GptDecoder decoder(model, DType::f32);
//   Tensor logits = decoder.begin({prompt});  // of what follows the prompt
//   logits = decoder.step({token});           // of what follows the token
#pragma once
#include <map>

#include "models/blocks/packed_weights.h"
#include "models/gpt/gpt.h"
#include "ops/attention/cached_attention.h"

namespace foldgrad {

using TokenIds = std::vector<std::int64_t>;

// For one thread at a time.
class GptDecoder {
 public:
  // Runs on the model's device. `model` must outlive this and must not change. Throws std::invalid_argument for a dtype
  // that InferencePrecision refuses, and for a normalizer whose statistics are over the tokens of a sequence.
  GptDecoder(Gpt& model, DType dtype);

  const GptConfig& config() const { return model_.config(); }

  // Both return logits [texts, vocabulary] of what follows, in f64 for a model of f64, otherwise f32, on the model's
  // device. begin() forgets the texts before. They throw std::invalid_argument for no texts, texts that do not have 1
  // to context tokens, another number of tokens than texts, ids outside the vocabulary, and a step without room.
  Tensor begin(const std::vector<TokenIds>& texts);
  Tensor step(const TokenIds& tokens);
  // Returns how many steps can still be made.
  std::int64_t room() const;

 private:
  Tensor following(const TokenIds& ids, const Segments& rows, const Tensor& places, const Attend& attend);
  void keep(const AttentionBlock& block, const Tensor& qkv, const Segments& rows);

  Gpt& model_;
  InferencePrecision precision_;
  Tape tape_{/*recording=*/false};
  Segments begins_;         // of the texts that begin() was given
  std::int64_t steps_ = 0;  // made since then
  // [texts x context, 3 width]: queries, keys and values of each text one after the other, with room for all to come.
  std::map<const AttentionBlock*, Tensor> cache_;
};

}  // namespace foldgrad
