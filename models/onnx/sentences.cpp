#include "models/onnx/sentences.h"

namespace foldgrad {

std::string SentenceRecording::split_heads(const std::string& rows, std::int64_t, std::int64_t heads,
                                           std::int64_t width) const {
  if (rows.empty()) return rows;
  return g_.transpose(g_.node("Reshape", {rows, g_.integers({0, 0, heads, width})}), {0, 2, 1, 3});
}

std::string SentenceRecording::merge_heads(const std::string& y) const {
  return g_.node("Reshape", {g_.transpose(y, {0, 2, 1, 3}), g_.integers({0, 0, result()[-1]})});
}

std::string onnx_bias_of(OnnxGraph& g, const std::string& seen) {
  return g.node("Where", {seen, g.number(0), g.number(-1e30)});
}

}  // namespace foldgrad
