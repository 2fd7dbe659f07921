// Nodes of ONNX for the rows of sentences, which are [batch, length, width] in the files.
#pragma once
#include <functional>

#include "models/onnx/recording.h"

namespace foldgrad {

// Codes of ONNX's types.
inline const OnnxGraph::Attribute kOnnxToF32{"to", std::int64_t(1)}, kOnnxToI64{"to", std::int64_t(7)},
    kOnnxToBool{"to", std::int64_t(9)};

class SentenceRecording final : public OnnxRecording {
 public:
  // positions: i64 [batch, length]; attended: what attention is to see, see OnnxOperands::keys.
  SentenceRecording(OnnxGraph& g, Model& model, const Graph& graph, std::string positions,
                    std::function<Keys(const Keys&, bool causal)> attended)
      : OnnxRecording(g, model, graph), g_(g), positions_(std::move(positions)), attended_(std::move(attended)) {}

  std::string positions() const override { return positions_; }
  std::string split_heads(const std::string& rows, std::int64_t, std::int64_t heads, std::int64_t width) const override;
  std::string merge_heads(const std::string& y) const override;
  Keys keys(const Keys& recorded, bool causal) const override { return attended_(recorded, causal); }

 private:
  OnnxGraph& g_;
  std::string positions_;
  std::function<Keys(const Keys&, bool)> attended_;
};

// The bias of attention: 0 where a key is `seen`, otherwise so little that nothing is left in the softmax. Not
// -infinity, since a row without any key would become NaN.
std::string onnx_bias_of(OnnxGraph& g, const std::string& seen);

}  // namespace foldgrad
