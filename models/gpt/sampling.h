// Generates text with a Gpt by drawing each next token from the model's distribution.
//
//   [SMP-1]  p = softmax(logits / temperature) over the top_k largest logits; of equal logits, smaller ids come first
//   [SMP-2]  the token is the first whose cumulative probability, in the order of ids, exceeds u; u = (r + 1/2) / 2^32
//            with r the first word of the sequence {seed, text number, token number}
//   [SMP-3]  with top_p below 1 only tokens of the nucleus are drawn, and their p are scaled to sum to 1. A token is in
//            the nucleus if the tokens before it, in the order of SMP-1, have probabilities whose sum is below top_p;
//            the first token always is.
//
//   With temperature 0, the first token with the largest logit is taken.
#pragma once
#include "models/gpt/decoder.h"

namespace foldgrad {

struct SamplingOptions {
  double temperature = 0.8;
  std::int64_t top_k = 0;  // 0 means all tokens
  double top_p = 1;        // 1 means all of the top_k tokens
  std::uint64_t seed = 1;
};

// Draws token number `token` of text `text` from row `text` of `logits` [texts, vocabulary], f32 or f64 on the
// CPU. Returns -1 if that row is not finite.
std::int64_t sample(const Tensor& logits, std::int64_t text, std::int64_t token, const SamplingOptions& options);

// Draws `count` tokens for each text, one per text in turn, and calls take(text, token) as each is drawn. If a text is
// longer than the context, only its end is used; when the context is full, generation restarts from its second half.
// Stops and returns false if logits are not finite. Throws std::invalid_argument if GptDecoder refuses the texts, the
// temperature is negative or not finite, top_k is negative, or top_p is outside [0, 1].
bool generate(GptDecoder& decoder, std::vector<TokenIds> texts, std::int64_t count, const SamplingOptions& options,
              const std::function<void(std::size_t text, std::int64_t token)>& take);

}  // namespace foldgrad
