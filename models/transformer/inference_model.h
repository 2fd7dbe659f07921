// Internals of InferenceTransformer; other code uses inference.h.
#pragma once
#include <deque>

#include "models/inference/layers.h"
#include "models/transformer/inference.h"

namespace foldgrad {

template <class T>
class InferenceModel final : public InferenceTransformer {
  using X = compute_t<T>;

 public:
  explicit InferenceModel(Transformer& model);

  const TransformerConfig& config() const override { return model.config(); }
  Tensor encode(const Tensor& source, const Tensor& source_mask) const override;
  std::unique_ptr<StepDecoder> decoder(const Tensor& source, const Tensor& source_mask) const override;

  Tensor encode(const Sentences& sentences) const;
  // x = sqrt(width) table[id] + the row of a position, counted from 0
  void embed(const Tensor& table, std::int64_t id, std::int64_t position, X* x) const;

  Transformer& model;
  Tensor source_table, target_table, positions;  // of X
  std::deque<InferenceLayer<T>> encoder_layers, decoder_layers;
  InferenceNorm<T> encoder_norm, decoder_norm;
  PackedLinear output;
};

template <class T>
std::unique_ptr<StepDecoder> make_step_decoder(const InferenceModel<T>& model, const Sentences& sentences);

}  // namespace foldgrad
