// A recorded forward pass as nodes of ONNX: one loop over its operations.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "models/model.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// Codes of ONNX's types.
inline const OnnxGraph::Attribute kOnnxToF32{"to", std::int64_t(1)}, kOnnxToI64{"to", std::int64_t(7)},
    kOnnxToBool{"to", std::int64_t(9)};

// Positions and attention for rows of sentences, which are [batch, length, width] in the files.
struct OnnxSentences {
  std::string positions;  // i64 [batch, length]
  // Gives attention what it is to see, see OnnxOperands::keys.
  std::function<OnnxOperands::Keys(const OnnxOperands::Keys& recorded, bool causal)> attended;
};

// The nodes of `graph`, a recording of `model` in inference with its normalizers as sites, in `g`. Operations export
// themselves (Node::onnx); normalizers are their inference(). Without `sentences` all sequences have one length, which
// was recorded, and no operation looks for positions.
class OnnxRecording final : public OnnxOperands {
 public:
  OnnxRecording(OnnxGraph& g, Model& model, const Graph& graph, std::optional<OnnxSentences> sentences = {});

  // Gives a value of the recording a name in the file: an input or what was made of it. With an empty one it is absent,
  // and so are results of operations whose first operand is absent.
  void give(int value, const std::string& name);
  // Returns the name of the recording's only result. Throws std::invalid_argument for an operation or a normalizer that
  // has no nodes of ONNX.
  std::string add();

  std::string operator[](int k) const override;
  const Shape& shape(int k) const override { return graph_.values[operand(k)].shape; }
  const Shape& result() const override { return graph_.result_shape(n_); }
  std::string matrix(int k, const Tensor& value) const override;
  std::string constant(int k, const Tensor& value) const override;
  std::string positions() const override;
  std::string split_heads(const std::string& rows, std::int64_t length, std::int64_t heads,
                          std::int64_t width) const override;
  std::string merge_heads(const std::string& y) const override;
  Keys keys(const Keys& recorded, bool causal) const override;

 private:
  int operand(int k) const { return graph_.nodes[n_].operands[std::size_t(k)]; }
  std::string describe() const { return graph_.describe({n_, 0}); }
  std::string weight_before(const GraphNode& node) const;

  OnnxGraph& g_;
  const Graph& graph_;
  std::optional<OnnxSentences> sentences_;
  NamedTensors parameters_;
  std::map<std::string, Normalizer*> normalizers_;
  std::string first_;                    // a given value, whose first axis counts examples
  std::map<int, std::string> names_;     // of values in the file
  std::map<int, std::string> computed_;  // from parameters alone: under these names they become weights
  int n_ = 0;                            // the node that is being added
};

// Throws std::invalid_argument unless the model is f32 on the CPU and none of its normalizers mixes tokens: "onnx: SITE
// (NAME) has statistics over the tokens of WHAT".
void require_exportable(const Model& model, const char* what);

// Returns the bias of attention: 0 where a key is `seen`, otherwise so little that nothing is left in the softmax. Not
// -infinity, since a row without any key would become NaN.
std::string onnx_bias_of(OnnxGraph& g, const std::string& seen);

// Adds inference() of the normalizer as nodes, and returns x itself if it does nothing. Throws std::invalid_argument
// for one without such a form. It is not for one with statistics over the tokens of a sentence.
std::string onnx_normalizer(OnnxGraph& g, const Normalizer& norm, const std::string& x);

}  // namespace foldgrad
