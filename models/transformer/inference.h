// A Transformer for inference, in f32, f64 or bf16: its encoder and decoder, unrecorded. On the CPU with weights packed
// once (models/blocks/packed_weights.h).
//
//   InferenceTransformer inference(model, DType::f32);
//   auto results = beam_search(inference, source, source_mask);
#pragma once
#include "models/blocks/packed_weights.h"
#include "models/transformer/transformer.h"
#include "ops/attention/cached_attention.h"

namespace foldgrad {

// For one thread at a time.
class InferenceTransformer {
 public:
  // Runs on the model's device. `model` must outlive this and must not change. Throws std::invalid_argument for a dtype
  // that InferencePrecision refuses.
  InferenceTransformer(Transformer& model, DType dtype);
  // Runs in f64 for a model of f64, otherwise in f32. Making one takes as long as translating some sentences: make one
  // for several batches.
  explicit InferenceTransformer(Transformer& model);

  const TransformerConfig& config() const { return model_.config(); }
  // Returns the encoder's output for all tokens of [B, S] but padding, [tokens, width], sentence after sentence.
  // Throws std::invalid_argument unless ids and mask are of one shape and on the CPU, with ids in the vocabulary and at
  // most max_positions tokens a sentence, padding included where normalizers count it.
  Tensor encode(const Tensor& source, const Tensor& source_mask) const;

 private:
  friend class StepDecoder;
  Sentences sentences(const Tensor& source, const Tensor& source_mask, const ForwardPass& pass) const;

  Transformer& model_;
  mutable InferencePrecision precision_;
};

// The decoder, one token at a time: keys and values of earlier tokens are kept, not computed again.
//
//   Rows are hypotheses. Each step takes, for every row, its newest token and its parent, the row of the step before
//   that it continues: a parent may have several children, or none. Nothing is copied when rows are chosen anew; each
//   row only knows which row of every earlier step it descends from. Parents of the first step are sentences.
class StepDecoder {
 public:
  // Encodes the sources; `inference` must outlive this. Throws std::invalid_argument for what encode refuses, and for a
  // normalizer whose statistics are over the tokens of a sentence.
  StepDecoder(const InferenceTransformer& inference, const Tensor& source, const Tensor& source_mask);

  // Returns logits [rows, target_vocabulary] of what follows, in f64 for a model of f64, otherwise f32, on the model's
  // device. Throws std::invalid_argument for parents that do not exist and beyond max_positions steps.
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
  // Rows that end in keys and values: of each step, or once of the sources.
  std::map<const AttentionBlock*, std::vector<Tensor>> cache_;
  std::int64_t steps_ = 0;
  std::vector<std::int64_t> sentences_;               // of each row
  std::vector<std::vector<std::int64_t>> ancestors_;  // [row][step]
};

}  // namespace foldgrad
