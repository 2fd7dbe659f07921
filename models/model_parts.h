// The parts of a model. Each layer adds its parts in list().
#pragma once
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// The parts of each layer, in the order of the layers. A shared part is listed once.
struct ModelParts {
  std::vector<Parameter*> parameters;
  std::vector<Normalizer*> normalizers;
  std::vector<Parameter*> added;   // those of `parameters` that are learned positions or the class token
  std::vector<Parameter*> output;  // those of `parameters` that belong to the last layer, which computes the logits
  std::vector<Parameter*> fixed;   // those of `parameters` that training does not change

  // Does nothing if the value is undefined.
  void add(Parameter& parameter) {
    if (parameter.value.defined()) parameters.push_back(&parameter);
  }
  // Adds the normalizer and its parameters. Does nothing if `norm` is null.
  void add(const std::unique_ptr<Normalizer>& norm) {
    if (!norm) return;
    for (Parameter* p : norm->parameters()) parameters.push_back(p);
    normalizers.push_back(norm.get());
  }
};

}  // namespace foldgrad
