// The outputs of a model's layers, by which models are compared.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace foldgrad {

struct LayerOutput {
  std::string layer;
  Tensor values;  // [rows, ...] on the CPU, with a row for each token of each example
};

// Returns the outputs in the order of the forward pass: the y of every normalizer, under its site, unless y is x
// itself; and for every attention or feed-forward sublayer, under its scope, the output of its last linear layer
// without bias, before the residual sum. Inputs may be on any device.
std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
