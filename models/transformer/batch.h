// Batches of sentences for a Transformer.
#pragma once
#include <vector>

#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "ops/segments/segments.h"

namespace foldgrad {

struct Sentences {
  Tensor ids;  // i64 [N]
  Segments rows;

  static Sentences of(const std::vector<Ids>& sentences);  // returns tensors on the CPU
};

// Pairs of sentences. The decoder's input is the target with the end token moved from the last position to the first,
// so `target` holds the token that follows each token of `input`.
struct TranslationBatch {
  Sentences source, input;
  Tensor target;  // i64, has the shape of input.ids

  // Returns the inputs of a Model: source, input and target, and the number of tokens in each sentence, i64 [pairs], as
  // source_lengths, input_lengths and target_lengths (models/model.h). Omits an undefined target.
  NamedTensors named() const;
  // Throws std::invalid_argument if source or input lacks a tensor, or if its number of ids is not the sum of its
  // lengths. The target may be missing.
  static TranslationBatch of(const NamedTensors& inputs);
};

// Makes a batch on the CPU. Each source must have one target.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets);

}  // namespace foldgrad
