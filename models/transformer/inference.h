// Runs the encoder and the decoder of a Transformer at inference, in f32, f64 or bf16, without recording. On the CPU,
// packs weights once (models/blocks/packed_weights.h).
//
//   InferenceTransformer inference(model, DType::f32);
//   auto results = beam_search(inference, sources);
#pragma once
#include "models/blocks/packed_weights.h"
#include "models/transformer/transformer.h"
#include "ops/attention/cached_attention.h"

namespace foldgrad {

// Use from one thread at a time.
class InferenceTransformer {
 public:
  // Runs on the model's device. `model` must outlive this object and must not change. Throws std::invalid_argument if
  // InferencePrecision refuses the dtype.
  InferenceTransformer(Transformer& model, DType dtype);
  // Runs in f64 for an f64 model, otherwise in f32. The constructor takes as long as translating a few sentences, so
  // use one object for several batches.
  explicit InferenceTransformer(Transformer& model);
  const TransformerConfig& config() const { return model_.config(); }
  // Returns the encoder's output for all tokens, [tokens, width]. Throws std::invalid_argument unless all ids are on
  // the CPU and in the vocabulary, and every sentence has at most max_positions tokens.
  Tensor encode(const Sentences& sources) const;

 private:
  friend class StepDecoder;
  Sentences checked(const Sentences& sources, const ForwardPass& pass) const;

  Transformer& model_;
  mutable InferencePrecision precision_;
};

// Runs the decoder one token at a time, and caches the keys and values of earlier tokens.
//
//   Rows are hypotheses. For every row, a step takes the newest token and the parent, which is the row of the previous
//   step that this row continues. A parent may have several children or none. The cache is not copied; each row stores
//   its ancestor in every earlier step. Example: after parents {0, 0}, both rows continue row 0. In the first step,
//   parents are sentences.
class StepDecoder {
 public:
  // Encodes the sources. `inference` must outlive this object. Throws std::invalid_argument if encode() refuses the
  // sources, or if a normalizer has statistics over a sentence's tokens.
  StepDecoder(const InferenceTransformer& inference, const Sentences& sources);

  // Returns the logits [rows, target_vocabulary] of the next tokens, in f64 for an f64 model, otherwise in f32, on the
  // model's device. Throws std::invalid_argument if a parent does not exist, and after max_positions steps.
  Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents);
  std::int64_t steps() const { return steps_; }

 private:
  void check(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) const;
  void descend(const std::vector<std::int64_t>& parents);
  CachePlaces places_of_steps() const;
  CachePlaces places_of_memory() const;
  Var projected(AttentionBlock& block, const Var& in, const std::vector<std::int64_t>& tokens) const;

  Transformer& model_;
  Tape tape_{/*recording=*/false};
  ForwardPass pass_;
  Segments sources_;
  // One tensor per step; each of its rows ends with a key and a value. Attention to the sources has one tensor for all
  // steps.
  std::map<const AttentionBlock*, std::vector<Tensor>> cache_;
  std::int64_t steps_ = 0;
  std::vector<std::int64_t> sentences_;               // index of each row's sentence
  std::vector<std::vector<std::int64_t>> ancestors_;  // indexed by [row][step]
};

}  // namespace foldgrad
