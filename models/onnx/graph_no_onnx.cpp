// Replaces graph_onnx.cpp in builds without the libraries.
#include <stdexcept>

#include "models/onnx/graph.h"

namespace foldgrad {

bool onnx_available() { return false; }

std::unique_ptr<OnnxFile> OnnxFile::make(const std::string&) {
  throw std::runtime_error(
      "onnx: this build lacks onnx and protobuf; install libonnx-dev, libprotobuf-dev and protobuf-compiler and "
      "configure with FOLDGRAD_ONNX=ON");
}

}  // namespace foldgrad
