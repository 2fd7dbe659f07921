// The logits of what follows texts, by a pass over the whole of each.
#pragma once
#include <algorithm>

#include "models/gpt/decoder.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {

// Logits [texts, vocabulary] in f64.
inline Tensor following(Gpt& model, const std::vector<TokenIds>& texts) {
  const std::int64_t V = model.config().vocabulary;
  const Tensor all = Tensor::empty({std::int64_t(texts.size()), V}, DType::f64);
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const auto T = std::int64_t(texts[s].size());
    const Tensor logits = inference_logits(model, {{"ids", Tensor::of({1, T}, texts[s])}}, model.dtype());
    std::copy_n(logits.data<double>() + (T - 1) * V, V, all.data<double>() + std::int64_t(s) * V);
  }
  return all;
}

inline std::int64_t longest(const std::vector<TokenIds>& texts) {
  return std::int64_t(std::ranges::max_element(texts, {}, &TokenIds::size)->size());
}

}  // namespace foldgrad::testing
