// Runs a Gpt at inference, one token at a time and without recording. Caches the keys and values of earlier tokens. On
// the CPU, packs weights once (models/blocks/packed_weights.h).
//
//   GptDecoder decoder(model, DType::f32);
//   Tensor logits = decoder.begin({prompt});  // for the token after the prompt
//   logits = decoder.step({token});           // for the token after this one
#pragma once
#include <map>

#include "models/blocks/packed_weights.h"
#include "models/gpt/gpt.h"
#include "ops/attention/cached_attention.h"

namespace foldgrad {

using TokenIds = std::vector<std::int64_t>;

// Use from one thread at a time.
class GptDecoder {
 public:
  // Runs on the model's device. `model` must outlive the decoder and must not change. Throws std::invalid_argument if
  // InferencePrecision refuses the dtype, or a normalizer has statistics over a sequence's tokens.
  GptDecoder(Gpt& model, DType dtype);
  const GptConfig& config() const { return model_.config(); }

  // Both return the logits [texts, vocabulary] of the next tokens, in f64 for an f64 model, otherwise in f32, on the
  // model's device. begin() discards earlier texts. Both throw std::invalid_argument if there are no texts, if a text
  // is empty or longer than `context`, if the numbers of texts and tokens differ, if an id is outside the vocabulary,
  // or if no room() is left.
  Tensor begin(const std::vector<TokenIds>& texts);
  Tensor step(const TokenIds& tokens);
  // Returns the number of further steps that fit into the context.
  std::int64_t room() const;

 private:
  Tensor following(const TokenIds& ids, const Segments& rows, const Tensor& places, const Attend& attend);
  void keep(const AttentionBlock& block, const Tensor& qkv, const Segments& rows);

  Gpt& model_;
  InferencePrecision precision_;
  Tape tape_{/*recording=*/false};
  Segments begins_;         // the texts passed to begin()
  std::int64_t steps_ = 0;  // number of steps since begin()
  // [texts * context, 3 width], the queries, keys and values of one text after another. Each text has room for the
  // whole context.
  std::map<const AttentionBlock*, Tensor> cache_;
};

}  // namespace foldgrad
