// Writes an ONNX graph to a file:
//
//   const auto g = OnnxFile::make("linear");
//   const std::string x = g->input("x", DType::f32, {"rows", 8});
//   g->output(g->node("MatMul", {x, g->initializer("w", w)}), "y", DType::f32, {"rows", 4});
//   g->write(file);
//
// Declarations of onnx and protobuf stay in graph_onnx.cpp.
#pragma once
#include <memory>

#include "engine/files/atomic_file.h"
#include "engine/graph/onnx_graph.h"

namespace foldgrad {

bool onnx_available();

class OnnxFile : public OnnxGraph {
 public:
  using Size = std::variant<std::int64_t, std::string>;  // a text names a size that each run may choose
  using NamedSizes = std::vector<Size>;

  // Throws std::runtime_error if this program was built without onnx and protobuf (option FOLDGRAD_ONNX).
  static std::unique_ptr<OnnxFile> make(const std::string& name);

  // Adds an input. Inputs and outputs are f32 or i64.
  virtual std::string input(const std::string& name, DType dtype, const NamedSizes& sizes) = 0;
  // Makes `value`, the result of a node, an output and renames it.
  virtual void output(const std::string& value, const std::string& name, DType dtype, const NamedSizes& sizes) = 0;

  // Adds a text for readers of the file; onnxruntime calls it custom_metadata_map.
  virtual void metadata(const std::string& key, const std::string& value) = 0;

  // Throws FileError.
  virtual void write(AtomicFile& file) const = 0;
};

}  // namespace foldgrad
