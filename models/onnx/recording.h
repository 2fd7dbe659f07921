// A recorded forward pass as nodes of ONNX.
#pragma once
#include <map>

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "models/model.h"

namespace foldgrad {

// Adds the operations of `graph`, a recording of `model` in inference with its normalizers as sites, and returns the
// name of its only result. Operations export themselves (Node::onnx); normalizers are their inference(). given: the
// names of values that the recording was given, such as embedded images. Throws std::invalid_argument for an operation
// or a normalizer that has no nodes of ONNX.
std::string onnx_recording(OnnxGraph& g, Model& model, const Graph& graph, std::map<int, std::string> given);

}  // namespace foldgrad
