#include "models/transformer/batch.h"

#include "engine/check.h"

namespace foldgrad {
namespace {

Tensor concatenated(const std::vector<Ids>& sentences) {
  Ids all;
  for (const Ids& ids : sentences) all.insert(all.end(), ids.begin(), ids.end());
  return Tensor::of({std::int64_t(all.size())}, all);
}

}  // namespace

Sentences Sentences::of(const std::vector<Ids>& sentences) {
  std::vector<std::int64_t> lengths;
  for (const Ids& ids : sentences) lengths.push_back(std::int64_t(ids.size()));
  return {concatenated(sentences), Segments(lengths)};
}

TranslationBatch make_batch(const std::vector<Ids>& sources, const std::vector<Ids>& targets) {
  std::vector<Ids> inputs = targets;
  for (Ids& ids : inputs) {
    ids.insert(ids.begin(), kEos);
    ids.pop_back();
  }
  return {Sentences::of(sources), Sentences::of(inputs), concatenated(targets)};
}

NamedTensors TranslationBatch::named() const {
  const Tensor lengths = input.rows.lengths();
  NamedTensors all{{"source", source.ids},
                   {"source_lengths", source.rows.lengths()},
                   {"input", input.ids},
                   {"input_lengths", lengths}};
  if (target.defined()) all.insert({{"target", target}, {"target_lengths", lengths}});
  return all;
}

TranslationBatch TranslationBatch::of(const NamedTensors& inputs) {
  const auto needed = [&](const std::string& name) {
    const auto found = inputs.find(name);
    FOLDGRAD_CHECK(found != inputs.end(), "transformer: the input \"{}\" is missing", name);
    return found->second;
  };
  const auto sentences = [&](const std::string& name) {
    const Sentences s{needed(name), Segments(needed(name + "_lengths").values<std::int64_t>())};
    FOLDGRAD_CHECK(s.ids.shape() == Shape{s.rows.rows()},
                   "transformer: {} must be [{}] according to {}_lengths, got {}", name, s.rows.rows(), name,
                   s.ids.shape());
    return s;
  };
  const auto target = inputs.find("target");
  return {sentences("source"), sentences("input"), target == inputs.end() ? Tensor() : target->second};
}

}  // namespace foldgrad
