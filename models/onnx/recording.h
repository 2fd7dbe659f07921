// Exports a recorded forward pass as ONNX nodes, in one loop over its operations.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "models/model.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// ONNX's type codes.
inline const OnnxGraph::Attribute kOnnxToF32{"to", std::int64_t(1)}, kOnnxToI64{"to", std::int64_t(7)},
    kOnnxToBool{"to", std::int64_t(9)};

// Positions and attention for rows of sentences. In ONNX files, these rows are [batch, length, width].
struct OnnxSentences {
  std::string positions;  // name of an i64 tensor [batch, length]
  // Returns the keys and values for attention; see OnnxOperands::keys.
  std::function<OnnxOperands::Keys(const OnnxOperands::Keys& recorded, bool causal)> attended;
};

// Adds `graph` to `g` as nodes. `graph` is a recording of `model` at inference, with the model's normalizers as sites.
// Operations export themselves (Description::onnx); normalizers are exported as their inference() forms. Without
// `sentences`, all sequences have the recorded length, and operations that need positions are not allowed.
class OnnxRecording final : public OnnxOperands {
 public:
  OnnxRecording(OnnxGraph& g, Model& model, const Graph& graph, std::optional<OnnxSentences> sentences = {});

  // Gives a recorded value the name under which the file already contains it, as an input or as the result of other
  // nodes. An empty name means that the value is absent; results of operations whose first operand is absent are absent
  // too.
  void give(int value, const std::string& name);
  // Adds all nodes and returns the name of the recording's only result. Throws std::invalid_argument if ONNX nodes
  // cannot express an operation or a normalizer.
  std::string add();

  std::string operator[](int k) const override;
  const Shape& shape(int k) const override { return graph_.values[operand(k)].shape; }
  const Shape& result() const override { return graph_.result_shape(n_); }
  std::string matrix(int k, const Tensor& value) const override;
  std::string constant(int k, const Tensor& value) const override;
  std::string recorded(int k, const Tensor& value) const override;
  std::string positions() const override;
  std::string split_heads(const std::string& rows, std::int64_t length, std::int64_t heads,
                          std::int64_t width) const override;
  std::string merge_heads(const std::string& y) const override;
  Keys keys(const Keys& recorded, bool causal) const override;

 private:
  int operand(int k) const { return graph_.nodes[n_].operands[std::size_t(k)]; }
  std::string describe() const { return graph_.describe({n_, 0}); }
  std::string weight_before(const GraphNode& node) const;
  std::vector<bool> needed() const;  // false for nodes that only compute operands with recorded values

  OnnxGraph& g_;
  const Graph& graph_;
  std::optional<OnnxSentences> sentences_;
  NamedTensors parameters_;
  std::map<std::string, Normalizer*> normalizers_;
  std::string first_;                    // the first given value; its first axis indexes the examples
  std::map<int, std::string> names_;     // names of values in the file
  std::map<int, std::string> computed_;  // names, as weights, of values computed only from parameters
  int n_ = 0;                            // the node being added
};

// Throws std::invalid_argument unless the model is f32 on the CPU and none of its normalizers mixes tokens: "onnx: SITE
// (NAME) has statistics over the tokens of WHAT".
void require_exportable(const Model& model, const char* what);

// Returns the attention bias: 0 for `seen` keys, and -1e30 for all other keys, which makes their probability 0.
// -infinity would give NaN in a row without keys.
std::string onnx_bias_of(OnnxGraph& g, const std::string& seen);

// Adds nodes for the normalizer's inference() form; returns x itself if the form changes nothing. Throws
// std::invalid_argument if there is no form. The normalizer must not have statistics over the tokens of a sentence.
std::string onnx_normalizer(OnnxGraph& g, const Normalizer& norm, const std::string& x);

}  // namespace foldgrad
