#include "models/transformer/batch.h"

#include <algorithm>
#include <cstring>

#include "engine/check.h"

namespace foldgrad {
namespace {

struct Padded {
  Tensor ids, mask;
};

Padded pad_sentences(const std::vector<Ids>& rows, std::int64_t pad, bool left = false) {
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
  const Padded source = pad_sentences(sources, pad, pad_sources_left), input = pad_sentences(inputs, pad),
               target = pad_sentences(targets, pad);
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

Sentences Sentences::of(const char* who, const Tensor& ids, const Tensor& mask, bool padding) {
  FOLDGRAD_CHECK(ids.shape().rank() == 2 && mask.shape() == ids.shape(),
                 "{}: ids and their mask must have one shape [B, T], got {} and {}", who, ids.shape(), mask.shape());
  const std::int64_t B = ids.shape()[0], T = ids.shape()[1];
  const std::vector<std::int64_t> from = ids.values<std::int64_t>();
  const std::vector<std::uint8_t> real = mask.values<std::uint8_t>();
  std::vector<std::int64_t> rows, lengths;
  for (std::int64_t b = 0; b < B; ++b) {
    const auto take = [&](bool tokens) {
      for (std::int64_t i = b * T; i < (b + 1) * T; ++i)
        if (bool(real[std::size_t(i)]) == tokens) rows.push_back(from[std::size_t(i)]);
    };
    const std::size_t before = rows.size();
    take(/*tokens=*/true);
    lengths.push_back(std::int64_t(rows.size() - before));
    if (padding) take(/*tokens=*/false);
  }
  return {Tensor::of({std::int64_t(rows.size())}, rows),
          padding ? Segments(lengths, std::vector<std::int64_t>(lengths.size(), T)) : Segments(lengths)};
}

Tensor padded(const Tensor& x, const Tensor& mask) {
  const std::vector<std::uint8_t> real = mask.values<std::uint8_t>();
  std::vector<std::int64_t> sizes = mask.shape().sizes();
  for (int axis = 1; axis < x.shape().rank(); ++axis) sizes.push_back(x.shape()[axis]);
  const Tensor rows = x.to(Device::cpu), all = Tensor::zeros(Shape(sizes), x.dtype());
  const std::size_t bytes = real.empty() ? 0 : all.bytes() / real.size();
  const char* from = static_cast<const char*>(rows.raw());
  for (std::size_t i = 0; i < real.size(); ++i) {
    if (!real[i]) continue;
    std::memcpy(static_cast<char*>(all.raw()) + i * bytes, from, bytes);
    from += bytes;
  }
  return all;
}

}  // namespace foldgrad
