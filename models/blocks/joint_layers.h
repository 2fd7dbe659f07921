// Linear layers of one input as one product, in training on CUDA, where each launch costs the GPU time
// (ops/linear/joint_linear.h). Each layer keeps its names and parameters.
#pragma once
#include <optional>
#include <vector>

#include "models/blocks/layers.h"

namespace foldgrad {

// What joint_layers() needs: on CUDA, moves the weights next to each other in memory, the biases too, and gives both
// gradients that lie the same way. Does nothing on the CPU, or where a parameter would no longer begin at a multiple of
// 64 bytes, which kernels with packs rely on. Tensors that shared storage with the values keep the old one.
void lay_side_by_side(const std::vector<LinearLayer*>& layers);

// [..., sum of out_k], the columns of one layer after those of another; nothing where each layer is to run by itself.
std::optional<Var> joint_layers(const std::vector<LinearLayer*>& layers, const Var& x, const ForwardPass& pass);

}  // namespace foldgrad
