// The parts of a model, in the order of its layers. Each layer adds its parts in list(). A shared part is listed once.
#pragma once
#include <ranges>

#include "models/normalizers/normalizer.h"

namespace foldgrad {

struct ModelParts {
  std::vector<Parameter*> parameters;
  std::vector<Normalizer*> normalizers;
  std::vector<Parameter*> added;   // elements of `parameters` that are learned positions or the class token
  std::vector<Parameter*> output;  // elements of `parameters` that belong to the last layer, which computes the logits
  std::vector<Parameter*> fixed;   // elements of `parameters` that training does not change

  // Adds the arguments in their order. Each is a parameter, a normalizer (added with its parameters), a layer (which
  // has list()), or a range, pointer or std::optional of these. Skips parameters with undefined values, null pointers
  // and empty optionals.
  void add(auto&... several) { (add_part(several), ...); }

 private:
  void add_part(Parameter& parameter) {
    if (parameter.value.defined()) parameters.push_back(&parameter);
  }
  void add_part(Normalizer& norm) {
    for (Parameter* p : norm.parameters()) parameters.push_back(p);
    normalizers.push_back(&norm);
  }
  void add_part(auto& part) {
    if constexpr (requires { part.list(*this); })
      part.list(*this);
    else if constexpr (std::ranges::range<decltype(part)>)
      for (auto& one : part) add_part(one);
    else if (part)
      add_part(*part);
  }
};

}  // namespace foldgrad
