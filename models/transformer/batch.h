// Sentences for a Transformer: padded for exchange with other code, and as rows for its computation.
#pragma once
#include <vector>

#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "ops/segments/segments.h"

namespace foldgrad {

// Ids are i64. Masks are u8: 1 for tokens, 0 for padding, on either side of a source and after a target. `input` begins
// with the end-of-sentence id; `target` has the next token for each of `input`. All tensors are on one device.
struct TranslationBatch {
  Tensor source, source_mask;        // [B, S]
  Tensor input, input_mask, target;  // [B, T]

  // Returns the tensors by these names, as a Model takes them; without a target if there is none.
  NamedTensors named() const;
  // Throws std::invalid_argument if a tensor other than the target is missing.
  static TranslationBatch of(const NamedTensors& inputs);
};

// Makes a batch on the CPU; there is one target per source. Pads sentences with `pad` at their end, sources in front if
// `pad_sources_left`. Inputs begin with kEos; targets are the next tokens.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad,
                            bool pad_sources_left = false);

// The ids of sentences, one sentence after another.
struct Sentences {
  Tensor ids;  // i64 [N]
  Segments rows;

  // Makes sentences, on the CPU, from ids [B, T] and their mask on any device: each sentence's tokens in order and,
  // with `padding`, its masked ids as padding rows after them. Throws std::invalid_argument, beginning with `who`,
  // unless both have the same shape [B, T].
  static Sentences of(const char* who, const Tensor& ids, const Tensor& mask, bool padding = false);
  Sentences to(Device device) const { return {ids.to(device), rows.to(device)}; }
};

// Returns x [tokens, ...], one row for each token of the mask [B, T], as [B, T, ...] on the CPU, with zeros at padding.
Tensor padded(const Tensor& x, const Tensor& mask);

}  // namespace foldgrad
