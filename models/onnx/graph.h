// Writes an ONNX graph to a file:
//
//   OnnxFile g("linear");
//   const std::string x = g.input("x", DType::f32, {"rows", 8});
//   g.output(g.node("MatMul", {x, g.initializer("w", w)}), "y", DType::f32, {"rows", 4});
//   g.write(file);
//
// The file is a ModelProto message of onnx.proto (https://github.com/onnx/onnx).
#pragma once
#include <map>
#include <set>

#include "engine/files/atomic_file.h"
#include "engine/graph/onnx_graph.h"

namespace foldgrad {

class OnnxFile final : public OnnxGraph {
 public:
  using Size = std::variant<std::int64_t, std::string>;  // a string names a size that may differ from run to run
  using NamedSizes = std::vector<Size>;

  explicit OnnxFile(std::string name) : name_(std::move(name)) {}
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}) override;
  std::string initializer(const std::string& name, const Tensor& value) override;

  // Adds an input. Inputs and outputs are f32 or i64.
  std::string input(const std::string& name, DType dtype, const NamedSizes& sizes);
  // Declares `value`, a node's result, as the graph output `name`.
  void output(const std::string& value, const std::string& name, DType dtype, const NamedSizes& sizes);

  // Adds a metadata entry, which onnxruntime returns in custom_metadata_map.
  void metadata(const std::string& key, const std::string& value);

  // Throws FileError.
  void write(AtomicFile& file) const;

 private:
  struct Node {
    std::vector<std::string> inputs;
    std::string output, rest;  // rest contains the other fields, encoded
  };

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Tensor>> weights_;  // encoded fields without the values, and the values
  std::string inputs_and_outputs_, metadata_;            // encoded
  std::map<std::string, int> named_;                     // number of nodes that have used each name
  std::set<std::string> initializers_;
  std::int64_t bytes_ = 0;  // size of all weights
};

}  // namespace foldgrad
