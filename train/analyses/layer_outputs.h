// Outputs of a model's layers at inference, for analyses that compare models.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace foldgrad {

struct LayerOutput {
  std::string layer;
  Tensor values;  // [rows, ...], on the CPU: of each example as many rows as it has tokens
};

// In the order of the forward pass: of every normalizer, by its site, y, unless that is x itself; of every sublayer of
// attention or feed-forward, by its scope, what its last linear layer gives without its bias, before the residual sum.
// Inputs lie on any device.
std::vector<LayerOutput> layer_outputs(Model& model, const NamedTensors& inputs, DType dtype);

// x [N, C], mask u8 [B, T] -> f64 [B, C]: the mean over the rows of each sentence's tokens, which are as many as its
// mask has ones. Rows are those of the tokens alone, or T for each sentence, the tokens first. Both on the CPU. Throws
// std::invalid_argument for other shapes.
Tensor mean_over_tokens(const Tensor& x, const Tensor& mask);

// The rows [n, ...] of all, one after the other. Throws std::invalid_argument unless they are alike but for n.
Tensor stacked(const std::vector<Tensor>& parts);

}  // namespace foldgrad
