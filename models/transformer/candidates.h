// The most probable continuations of hypotheses, for beam search.
#pragma once
#include "models/transformer/beam_search.h"

namespace foldgrad {

struct Candidate {
  double score;  // sum of log-probabilities
  std::int64_t row, token;

  // Returns true if *this ranks first.
  bool before(const Candidate& other) const {
    if (score != other.score) return score > other.score;
    return row != other.row ? row < other.row : token < other.token;
  }
};

// The continuations allowed in a row.
struct Continuation {
  double score = 0;  // of the hypothesis so far
  bool may_end = true, may_go_on = true;
};

// For each row of logits [rows, V] (f32 or f64, on any device) its `count` best allowed tokens, best first; fewer if
// fewer are allowed or finite. Probabilities are those of softmax over all V.
std::vector<std::vector<Candidate>> best_candidates(const Tensor& logits, const std::vector<Continuation>& rows,
                                                    std::int64_t count, std::int64_t pad,
                                                    const DecodingOptions& options);

}  // namespace foldgrad
