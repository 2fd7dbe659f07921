// Beam search by the rules of fairseq's sequence_generator.py (1.0.0a0). A beam of 1 is greedy decoding.
//
//   [BEAM-1]  At each step, the candidates are the 2 * beam continuations of a sentence's hypotheses with the highest
//             sums of log-probabilities.
//   [BEAM-2]  A candidate that ends is a result if it ranks among the first `beam`; otherwise it is dropped. The first
//             `beam` that do not end continue. A sentence is done when it has `beam` results.
//   [BEAM-3]  score = sum of log-probabilities / (tokens, the end included)^length_penalty
//   [BEAM-4]  After `limit` tokens only the end token may follow: limit = floor(a * number of source tokens + b), at
//             most max_positions - 1. Padding is never generated; the end token only after min_length tokens.
//
//   There is one difference: fairseq's limit counts the padding of a batch, but ours does not, so that a translation
//   does not depend on the other sentences of the batch. Equal sums are ordered by hypothesis, then by id.
#pragma once
#include "models/transformer/inference.h"

namespace foldgrad {

struct DecodingOptions {
  std::int64_t beam = 5;
  double length_penalty = 1;
  double max_length_a = 1.2;       // a in [BEAM-4]
  std::int64_t max_length_b = 10;  // b in [BEAM-4]
  std::int64_t min_length = 1;
  double unk_penalty = 0;               // subtracted from the log-probability of unk; infinity forbids unk
  std::int64_t eos = kEos, unk = kUnk;  // token ids
};

struct Hypothesis {
  std::vector<std::int64_t> ids;  // the tokens without the end token
  double score;
};

// Returns each source's results, best first: `beam` results, or fewer if the limit of [BEAM-4] is reached first. If a
// sentence's logits are not finite, its only result is empty and has score -infinity. Throws std::invalid_argument if
// an option is out of range or InferenceTransformer refuses the sources.
std::vector<std::vector<Hypothesis>> beam_search(const InferenceTransformer& model, const Sentences& sources,
                                                 const DecodingOptions& options = {});

// A continuation of a hypothesis by one token.
struct Candidate {
  double score;             // the sum of the tokens' log-probabilities
  std::int64_t row, token;  // the hypothesis's row of the logits; the next token

  // True if *this ranks before `other`.
  bool before(const Candidate& other) const {
    if (score != other.score) return score > other.score;
    return row != other.row ? row < other.row : token < other.token;
  }
};

// The tokens that may follow a row.
struct Continuation {
  double score = 0;  // score of the hypothesis so far
  bool may_end = true, may_go_on = true;
};

// Takes one step of the search. For each row of logits [rows, V], f32 or f64 on any device, returns the `count` best
// allowed tokens, best first, or fewer if fewer tokens are allowed and have finite logits. Probabilities are the
// softmax over all V tokens. The token `pad`, the model's padding id, is never allowed.
std::vector<std::vector<Candidate>> best_candidates(const Tensor& logits, const std::vector<Continuation>& rows,
                                                    std::int64_t count, std::int64_t pad,
                                                    const DecodingOptions& options);

}  // namespace foldgrad
