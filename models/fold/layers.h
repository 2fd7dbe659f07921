// The operations whose weights folding changes: affine maps of the channels of operand 0, with the weight
// [out, channels, ...] as operand 1 and, where there is one, the bias as operand 2.
#pragma once
#include "models/fold/graph.h"

namespace foldgrad {

inline bool is_convolution(const GraphNode& node) { return node.kind == "conv2d_channels_last"; }
inline bool is_layer(const GraphNode& node) { return node.kind == "linear" || is_convolution(node); }

// What the arguments of a convolution say: zeros stand around the image; an activation belongs to it.
inline bool pads(const GraphNode& node) { return is_convolution(node) && node.arguments[0] != 0; }
inline bool activates(const GraphNode& node) { return is_convolution(node) && node.arguments[1] != 0; }

}  // namespace foldgrad
