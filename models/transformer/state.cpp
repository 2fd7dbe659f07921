// What a Transformer consists of, as lists and maps.
#include "models/transformer/transformer.h"

namespace foldgrad {

std::vector<Parameter*> Transformer::parameters() {
  std::vector<Parameter*> all;
  const auto stack = [&](Parameter& table, std::deque<TransformerLayer>& layers, Normalizer* norm) {
    if (table.value.defined()) all.push_back(&table);
    for (TransformerLayer& layer : layers)
      for (Parameter* p : layer.parameters()) all.push_back(p);
    if (norm)
      for (Parameter* p : norm->parameters()) all.push_back(p);
  };
  stack(encoder_table_, encoder_, encoder_norm_.get());
  stack(decoder_table_, decoder_, decoder_norm_.get());
  for (Parameter* p : {&output_, &output_bias_})
    if (p->value.defined()) all.push_back(p);
  return all;
}

std::vector<Normalizer*> Transformer::normalizers() {
  std::vector<Normalizer*> all;
  const auto stack = [&](std::deque<TransformerLayer>& layers, Normalizer* norm) {
    for (TransformerLayer& layer : layers)
      for (Normalizer* n : layer.normalizers()) all.push_back(n);
    if (norm) all.push_back(norm);
  };
  stack(encoder_, encoder_norm_.get());
  stack(decoder_, decoder_norm_.get());
  return all;
}

std::int64_t Transformer::parameter_count() {
  std::int64_t count = 0;
  for (const Parameter* p : parameters()) count += p->value.size();
  return count;
}

NamedTensors Transformer::state() {
  NamedTensors all;
  for (const Normalizer* norm : normalizers())
    for (const auto& [name, tensor] : norm->state()) all.emplace(norm->site() + "." + name, tensor);
  return all;
}

NamedTensors Transformer::snapshot() { return clone(state()); }

void Transformer::restore(const NamedTensors& snapshot) { copy_into("transformer", state(), snapshot); }

void Transformer::copy_from(Transformer& other) {
  const auto to = parameters(), from = other.parameters();
  FOLDGRAD_CHECK(to.size() == from.size(), "transformer: needs {} parameters, got {}", to.size(), from.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    FOLDGRAD_CHECK(to[i]->name == from[i]->name && to[i]->value.shape() == from[i]->value.shape(),
                   "transformer: parameter {} {} cannot take {} {}", to[i]->name, to[i]->value.shape(), from[i]->name,
                   from[i]->value.shape());
    to[i]->value.copy_from(from[i]->value.to(to[i]->value.dtype()));
  }
  NamedTensors theirs = other.state();
  for (auto& [name, tensor] : state())
    if (const auto found = theirs.find(name); found != theirs.end()) found->second = found->second.to(tensor.dtype());
  restore(theirs);
}

}  // namespace foldgrad
