// Sentences as a Transformer takes them: padded, as others exchange them, and as rows, which it computes with.
#pragma once
#include <vector>

#include "engine/named_tensors.h"
#include "models/transformer/ids.h"
#include "ops/segments/segments.h"

namespace foldgrad {

// Ids are i64, masks u8 with 1 for tokens and 0 for padding, which may stand on either side of a source and after a
// target. `input` begins with the end-of-sentence id, `target` is what should follow. All on one device.
struct TranslationBatch {
  Tensor source, source_mask;        // [B, S]
  Tensor input, input_mask, target;  // [B, T]

  // Returns the tensors by these names, as Model takes them; without a target where there is none.
  NamedTensors named() const;
  // Throws std::invalid_argument when one but the target is missing.
  static TranslationBatch of(const NamedTensors& inputs);
};

// Makes a batch of as many sources as targets, on the CPU. Sentences are padded with `pad` at their end, sources in
// front if wanted; inputs begin with kEos, targets are what follows.
TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad,
                            bool pad_sources_left = false);

// The ids of sentences, one after the other.
struct Sentences {
  Tensor ids;  // i64 [N]
  Segments rows;

  // Makes sentences of ids [B, T] and their mask, on any device: the tokens of each in their order and, with `padding`,
  // the masked ids as surplus rows after them. On the CPU. Throws std::invalid_argument, which begins with
  // `who`, unless both are of one shape [B, T].
  static Sentences of(const char* who, const Tensor& ids, const Tensor& mask, bool padding = false);
  Sentences to(Device device) const { return {ids.to(device), rows.to(device)}; }
};

// Returns x [tokens, ...], a row for every token that the mask [B, T] lets through, as [B, T, ...] with zeros
// elsewhere, on the CPU.
Tensor padded(const Tensor& x, const Tensor& mask);

}  // namespace foldgrad
