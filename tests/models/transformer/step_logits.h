// The logits of a batch, one step after the other as decoding has them.
#pragma once
#include "models/transformer/inference.h"

namespace foldgrad::testing {

// The rows of x [B, T, C] where the mask is 1, in f64.
inline Tensor real_rows(const Tensor& x, const Tensor& mask) {
  const std::vector<std::uint8_t> real = mask.values<std::uint8_t>();
  const std::vector<double> values = x.to(DType::f64).values<double>();
  const std::int64_t C = x.shape()[-1];
  std::vector<double> kept;
  for (std::size_t i = 0; i < real.size(); ++i)
    if (real[i]) kept.insert(kept.end(), values.begin() + i * C, values.begin() + (i + 1) * C);
  return Tensor::of({std::int64_t(kept.size()) / C, C}, kept);
}

// Returns the logits of every token of batch.input, in the order of real_rows.
inline Tensor logits_by_steps(const InferenceTransformer& model, const TranslationBatch& batch) {
  const std::int64_t B = batch.input.shape()[0], T = batch.input.shape()[1], V = model.config().target_vocabulary;
  StepDecoder decoder(model, batch.source, batch.source_mask);
  const std::vector<std::int64_t> ids = batch.input.values<std::int64_t>();
  const Tensor all = Tensor::empty({B, T, V}, DType::f64);
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<std::int64_t> tokens, parents;
    for (std::int64_t b = 0; b < B; ++b) tokens.push_back(ids[b * T + t]), parents.push_back(b);
    const std::vector<double> z = decoder.step(tokens, parents).to(DType::f64).values<double>();
    for (std::int64_t b = 0; b < B; ++b) std::copy_n(z.begin() + b * V, V, all.data<double>() + (b * T + t) * V);
  }
  return real_rows(all, batch.input_mask);
}

}  // namespace foldgrad::testing
