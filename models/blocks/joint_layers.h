// Linear layers of one input as one product, in training on CUDA, where each launch costs the GPU time
// (ops/linear/joint_linear.h). Each layer keeps its names and parameters.
#pragma once
#include <optional>
#include <vector>

#include "models/blocks/layers.h"

namespace foldgrad {

// Moves the weights of layers that are on CUDA side by side, their biases as well, and makes places for the gradients
// that lie so: what joint_layers() needs. Otherwise, or where a layer would no longer begin at 64 bytes, as kernels
// with packs like it, it does nothing. Tensors that share storage with the values no longer do.
void lay_side_by_side(const std::vector<LinearLayer*>& layers);

// [..., sum of out_k], with the columns of each layer in their order; nothing where layers are to be taken one by one.
std::optional<Var> joint_layers(const std::vector<LinearLayer*>& layers, const Var& x, const ForwardPass& pass);

}  // namespace foldgrad
