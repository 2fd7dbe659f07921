// Texts that a Gpt writes: each next token is drawn from what the model expects.
//
//   [SMP-1]  p = softmax(logits / temperature) over the top_k largest logits, of equal ones those of smaller ids
//   [SMP-2]  the token is the first whose cumulated probability, in the order of ids, exceeds u; u = (r + 1/2) / 2^32
//            with r the first word of the sequence {seed, number of the text, number of the token}
//   [SMP-3]  with top_p below 1 only the nucleus is drawn from, and p is scaled to the sum 1. A token is in the nucleus
//            if the tokens before it, ordered as in SMP-1, have probabilities whose sum is below top_p; the first token
//            always is.
//
//   With temperature 0 it is the largest logit, of equal ones the first.
#pragma once
#include "models/gpt/decoder.h"

namespace foldgrad {

struct SamplingOptions {
  double temperature = 0.8;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;        // 1: all of these
  std::uint64_t seed = 1;
};

// Returns the token of row `text` of logits [texts, vocabulary], f32 or f64 on the CPU; -1 where they are not finite.
std::int64_t sample(const Tensor& logits, std::int64_t text, std::int64_t token, const SamplingOptions& options);

// Draws `count` tokens for each text and hands them to take(text, token) as they come, one for each text in turn. Only
// the end of a text that is longer than the context is seen; when the context is full, its later half is begun with.
// Returns false, having stopped, where logits are not finite. Throws std::invalid_argument for what GptDecoder refuses,
// a temperature that is negative or not finite, a negative top_k, and a top_p outside [0, 1].
bool generate(GptDecoder& decoder, std::vector<TokenIds> texts, std::int64_t count, const SamplingOptions& options,
              const std::function<void(std::size_t text, std::int64_t token)>& take);

}  // namespace foldgrad
