// Sentences for a Transformer, one after another.
#pragma once
#include <vector>

#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "ops/segments/segments.h"

namespace foldgrad {

struct Sentences {
  Tensor ids;  // i64 [N]
  Segments rows;

  static Sentences of(const std::vector<Ids>& sentences);  // on the CPU
};

// Pairs of sentences. The decoder's input is the target with its last token, the end, moved to the front; so `target`
// has the token that follows each token of `input`.
struct TranslationBatch {
  Sentences source, input;
  Tensor target;  // i64, the shape of input.ids

  // Returns the tensors as a Model takes them, without a target if there is none: source, input and target, and the
  // numbers of their tokens, i64 [pairs], as source_lengths, input_lengths and target_lengths (models/model.h).
  NamedTensors named() const;
  // Throws std::invalid_argument if a tensor of source or input is missing, or if its number of ids is not the sum
  // of its lengths. The target may be missing.
  static TranslationBatch of(const NamedTensors& inputs);
};

// Makes a batch on the CPU; there is one target per source.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets);

}  // namespace foldgrad
