// Converts translation_batch() to the padded tensors of an input file for `foldgrad run`.
#pragma once
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {

// Returns `source`, padded on the left, and `input`, padded on the right, with their masks. Each is `extra` columns
// wider than its longest sentence.
inline NamedTensors padded_inputs(std::int64_t extra = 0) {
  const TranslationBatch batch = translation_batch();
  NamedTensors all;
  for (const bool left : {true, false}) {
    const Sentences& s = left ? batch.source : batch.input;
    const std::int64_t B = s.rows.count(), T = s.rows.longest() + extra;
    const Tensor ids = Tensor::full({B, T}, kPad, DType::i64), mask = Tensor::zeros({B, T}, DType::u8);
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t n = s.rows.length(b), first = b * T + (left ? T - n : 0);
      std::copy_n(s.ids.data<std::int64_t>() + s.rows.offset(b), n, ids.data<std::int64_t>() + first);
      std::fill_n(mask.data<std::uint8_t>() + first, n, std::uint8_t(1));
    }
    const std::string name = left ? "source" : "input";
    all.insert({{name, ids}, {name + "_mask", mask}});
  }
  return all;
}

}  // namespace foldgrad::testing
