#include "models/transformer/batch.h"

#include <algorithm>

#include "engine/check.h"

namespace foldgrad {
namespace {

struct Padded {
  Tensor ids, mask;
};

Padded padded(const std::vector<Ids>& rows, std::int64_t pad, bool left = false) {
  std::size_t columns = 1;
  for (const Ids& row : rows) columns = std::max(columns, row.size());
  const Shape shape({std::int64_t(rows.size()), std::int64_t(columns)});
  const Padded p{Tensor::full(shape, double(pad), DType::i64), Tensor::zeros(shape, DType::u8)};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t first = r * columns + (left ? columns - rows[r].size() : 0);
    std::copy(rows[r].begin(), rows[r].end(), p.ids.data<std::int64_t>() + first);
    std::fill_n(p.mask.data<std::uint8_t>() + first, rows[r].size(), std::uint8_t(1));
  }
  return p;
}

}  // namespace

TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets, std::int64_t pad,
                            bool pad_sources_left) {
  std::vector<Ids> inputs = targets;
  for (Ids& ids : inputs) {
    ids.insert(ids.begin(), kEos);
    ids.pop_back();
  }
  const Padded source = padded(sources, pad, pad_sources_left), input = padded(inputs, pad),
               target = padded(targets, pad);
  return {source.ids, source.mask, input.ids, input.mask, target.ids};
}

NamedTensors TranslationBatch::named() const {
  NamedTensors all{{"source", source}, {"source_mask", source_mask}, {"input", input}, {"input_mask", input_mask}};
  if (target.defined()) all.emplace("target", target);
  return all;
}

TranslationBatch TranslationBatch::of(const NamedTensors& inputs) {
  const auto needed = [&](const char* name) {
    const auto found = inputs.find(name);
    FOLDGRAD_CHECK(found != inputs.end(), "transformer: takes an input \"{}\", which is missing", name);
    return found->second;
  };
  const auto target = inputs.find("target");
  return {needed("source"), needed("source_mask"), needed("input"), needed("input_mask"),
          target == inputs.end() ? Tensor() : target->second};
}

}  // namespace foldgrad
