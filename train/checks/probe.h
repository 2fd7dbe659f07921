// Inputs on which models are compared: random ones, or those of a user.
#pragma once
#include "models/model.h"

namespace foldgrad {

struct Probe {
  NamedTensors inputs;      // on the CPU, with their targets
  std::string description;  // "8 random inputs, seed 1"
  std::string digest;       // SHA-256 of names, shapes and values
};

Probe make_probe(NamedTensors inputs, std::string description);
// Returns a probe of Model::random_inputs().
Probe random_probe(const Model& model, std::uint64_t seed = 1);

}  // namespace foldgrad
