// Parameters and normalizers of a Transformer, as lists.
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

std::vector<Parameter*> Transformer::output_parameters() {
  if (Parameter* bias = output_bias()) return {&output_table(), bias};
  return {&output_table()};
}

}  // namespace foldgrad
