// The outputs of a model's layers, for comparing models.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace foldgrad {

struct LayerOutput {
  std::string layer;
  Tensor values;  // [rows, ...] on the CPU, with a row for each token of each example
};

// Returns the outputs in the order of the forward pass. The output of a normalizer is y, under the name of the site;
// this output is left out if y is x itself. The output of an attention or feed-forward sublayer, under the name of its
// scope, is the output of its last linear layer, without the bias and before the residual sum. Inputs may be on any
// device.
std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
