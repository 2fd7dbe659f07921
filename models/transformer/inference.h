// A Transformer for inference: the same function as Transformer's in f32, f64 or bf16. On the CPU without a tape, with
// weights packed once (packed_linear.h), one product for queries, keys and values, biases, activations and residual
// sums inside the products, and padding left out of all of it. On other devices by the operations of training, with
// keys and values of earlier tokens kept (taped_inference.h).
//
//   const auto inference = InferenceTransformer::make(model, DType::f32);
//   auto results = beam_search(*inference, source, source_mask);
#pragma once
#include "models/transformer/transformer.h"

namespace foldgrad {

// The decoder, one token at a time: keys and values of earlier tokens are kept, not computed again.
//
//   Rows are hypotheses. Each step takes, for every row, its newest token and its parent, the row of the step before
//   that it continues: a parent may have several children, or none. Nothing is copied when rows are chosen anew; each
//   row only knows which row of every earlier step it descends from. Parents of the first step are sentences.
class StepDecoder {
 public:
  virtual ~StepDecoder() = default;

  // Logits [rows, target_vocabulary] of what follows, in f64 for a model of f64, otherwise f32, on the model's device;
  // the next step overwrites them. Throws std::invalid_argument for parents that do not exist and beyond max_positions
  // steps.
  virtual Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) = 0;
  virtual std::int64_t steps() const = 0;
};

class InferenceTransformer {
 public:
  // Runs on the model's device. `model` must outlive this, since some normalizers run as they are, and must not change.
  // Throws std::invalid_argument unless dtype is f64 for a model of f64, f32 or bf16 for all others. bf16, on the CPU:
  // weights and what products read; what is summed from sublayer to sublayer, and logits, are f32.
  static std::unique_ptr<InferenceTransformer> make(Transformer& model, DType dtype);
  // In f64 for a model of f64, otherwise f32.
  static std::unique_ptr<InferenceTransformer> make(Transformer& model);
  virtual ~InferenceTransformer() = default;

  virtual const TransformerConfig& config() const = 0;
  // The encoder's output for the tokens of [B, S] that are not padding, [tokens, width], sentence after sentence.
  // Throws std::invalid_argument for ids and masks that are not of one shape, on the CPU, with ids in the vocabulary
  // and at most max_positions columns.
  virtual Tensor encode(const Tensor& source, const Tensor& source_mask) const = 0;
  // Encodes the sources; this must outlive what is returned. Throws std::invalid_argument for what encode refuses, and
  // for a normalizer whose statistics are over the tokens of a sentence.
  virtual std::unique_ptr<StepDecoder> decoder(const Tensor& source, const Tensor& source_mask) const = 0;
};

}  // namespace foldgrad
