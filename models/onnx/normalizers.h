// Normalizers as nodes of ONNX.
#pragma once
#include "engine/graph/onnx_graph.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// Adds inference() of the normalizer, x itself if it does nothing. Throws std::invalid_argument for one without such a
// form. Not for one with statistics over the tokens of a sentence.
std::string onnx_normalizer(OnnxGraph& g, const Normalizer& norm, const std::string& x);

}  // namespace foldgrad
