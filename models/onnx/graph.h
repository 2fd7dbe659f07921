// A graph of ONNX (https://onnx.ai), operator set 17, built node by node and written to a file:
//
//   const auto g = OnnxGraph::make("linear");
//   const std::string x = g->input("x", DType::f32, {"rows", 8});
//   g->output(g->node("MatMul", {x, g->initializer("w", w)}), "y", DType::f32, {"rows", 4});
//   g->write(file);
//
// Values are known by their names. What onnx and protobuf declare stays in graph_onnx.cpp.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/files/atomic_file.h"
#include "engine/tensor.h"

namespace foldgrad {

bool onnx_available();

class OnnxGraph {
 public:
  using Size = std::variant<std::int64_t, std::string>;  // text names one that every run may choose
  using Sizes = std::vector<Size>;
  using Attribute = std::pair<std::string, std::variant<std::int64_t, double, std::vector<std::int64_t>>>;

  // Throws std::runtime_error where this program was built without onnx and protobuf (option FOLDGRAD_ONNX).
  static std::unique_ptr<OnnxGraph> make(const std::string& name);
  virtual ~OnnxGraph() = default;

  // Inputs, outputs and initializers are f32 or i64.
  virtual std::string input(const std::string& name, DType dtype, const Sizes& sizes) = 0;
  // `value`, which a node has computed, gets this name; the one that it had is gone.
  virtual void output(const std::string& value, const std::string& name, DType dtype, const Sizes& sizes) = 0;

  // Nodes from now on, and what they compute, are named PLACE/OPERATOR, numbered where there are several.
  void at(const std::string& place) { place_ = place; }
  // The node's result; it has one.
  virtual std::string node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes = {}) = 0;

  // A weight on the CPU, copied; where the name is known already, it is the weight that was given first.
  // Throws std::invalid_argument when the weights are more than a file of protobuf can hold.
  virtual std::string initializer(const std::string& name, const Tensor& value) = 0;
  // Constants.
  std::string number(double value);                               // f32 []
  std::string integer(std::int64_t value);                        // i64 []
  std::string integers(const std::vector<std::int64_t>& values);  // i64 [size]

  // Text for whoever reads the file; onnxruntime has it as custom_metadata_map.
  virtual void metadata(const std::string& key, const std::string& value) = 0;

  // Throws FileError.
  virtual void write(AtomicFile& file) const = 0;

 protected:
  std::string place_;
};

}  // namespace foldgrad
