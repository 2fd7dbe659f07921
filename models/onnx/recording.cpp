#include "models/onnx/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/check.h"

namespace foldgrad {
namespace {

// Transposes [out, in] to [in, out].
Tensor transposed(const Tensor& w) {
  const std::int64_t rows = w.shape()[0], columns = w.shape()[1];
  const Tensor result = Tensor::empty({columns, rows}, DType::f32);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) result.data<float>()[c * rows + r] = w.data<float>()[r * columns + c];
  return result;
}

}  // namespace

std::string onnx_bias_of(OnnxGraph& g, const std::string& seen) {
  return g.node("Where", {seen, g.number(0), g.number(-1e30)});
}

void require_exportable(const Model& model, const char* what) {
  FOLDGRAD_CHECK(model.device() == Device::cpu && model.dtype() == DType::f32,
                 "onnx: the model must be f32 on cpu, got {} on {}", name(model.dtype()), name(model.device()));
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(!norm->mixes_tokens(), "onnx: {} ({}) has statistics over the tokens of {}", norm->site(),
                   norm->info().name, what);
}

OnnxRecording::OnnxRecording(OnnxGraph& g, Model& model, const Graph& graph, std::optional<OnnxSentences> sentences)
    : g_(g), graph_(graph), sentences_(std::move(sentences)), parameters_(model.values()) {
  for (Normalizer* norm : model.normalizers()) normalizers_[norm->site()] = norm;
}

void OnnxRecording::give(int value, const std::string& name) {
  if (first_.empty()) first_ = name;
  names_[value] = name;
}

std::string OnnxRecording::add() {
  const std::vector<bool> needed = this->needed();
  for (n_ = 0; n_ < int(graph_.nodes.size()); ++n_) {
    const GraphNode& node = graph_.nodes[n_];
    const auto first = names_.find(node.operands[0]);
    if (!needed[std::size_t(n_)]) {
      for (int value : node.operands)
        FOLDGRAD_CHECK(!names_.count(value), "onnx: {} depends on the inputs", describe());
    } else if (first != names_.end() && first->second.empty()) {
      names_[node.result] = "";
    } else if (node.kind == kNormalizer) {
      names_[node.result] = onnx_normalizer(g_, *normalizers_.at(node.scope), (*this)[0]);
    } else if (const std::string weight = weight_before(node); !weight.empty()) {
      computed_[node.result] = graph_.uses_of(weight).size() == 1 ? weight : weight + "." + node.kind;
    } else {
      g_.at(node.scope);
      names_[node.result] = node.description.onnx(g_, *this);
    }
  }
  return names_.at(graph_.results[0]);
}

std::string OnnxRecording::operator[](int k) const {
  const int value = operand(k);
  if (const auto known = names_.find(value); known != names_.end()) return known->second;
  const std::string& name = graph_.values[value].parameter;
  FOLDGRAD_CHECK(!name.empty(), "onnx: operand {} of {} is neither computed nor a parameter", k, describe());
  return g_.initializer(name, parameters_.at(name).reshape(shape(k).sizes()));
}

std::string OnnxRecording::matrix(int k, const Tensor& value) const {
  const std::string& name = graph_.values[operand(k)].parameter;
  if (name.empty() && graph_.producer(operand(k)) < 0 && !names_.count(operand(k)))
    return g_.initializer(fmt::format("constant_{}", operand(k)), transposed(value));
  if (name.empty()) {
    const auto computed = computed_.find(operand(k));
    FOLDGRAD_CHECK(computed != computed_.end(), "onnx: the weight of {} depends on the inputs", describe());
    return g_.initializer(computed->second, transposed(value));
  }
  // A table is stored only once, untransposed.
  const bool table = std::ranges::any_of(graph_.uses_of(name), [&](const GraphUse& use) {
    return graph_.nodes[use.node].description.table == use.operand;
  });
  return table ? g_.transpose((*this)[k], {1, 0}) : g_.initializer(name, transposed(value));
}

std::string OnnxRecording::constant(int k, const Tensor& value) const {
  if (const auto known = names_.find(operand(k)); known != names_.end()) return known->second;
  const std::int64_t first = value.shape()[0], size = first ? value.size() / first : 0;
  const std::int64_t* numbers = value.data<std::int64_t>();
  for (std::int64_t i = size; i < value.size(); ++i)
    FOLDGRAD_CHECK(numbers[i] == numbers[i % size], "onnx: {} has different integers for different examples",
                   describe());
  const OnnxGraph::Sizes sizes(value.shape().begin() + 1, value.shape().end());
  const std::string examples = g_.node("Shape", {first_}, {{"start", std::int64_t(0)}, {"end", std::int64_t(1)}});
  const std::string all = g_.node("Concat", {examples, g_.integers(sizes)}, {{"axis", std::int64_t(0)}});
  return g_.node("Expand", {g_.reshape(g_.integers({numbers, numbers + size}), sizes), all});
}

std::string OnnxRecording::recorded(int k, const Tensor& value) const {
  const std::string& name = graph_.values[operand(k)].parameter;
  return g_.initializer(name.empty() ? fmt::format("{}.operand{}", graph_.nodes[std::size_t(n_)].scope, k) : name,
                        value);
}

std::string OnnxRecording::positions() const {
  if (sentences_) return sentences_->positions;
  throw std::invalid_argument("onnx: " + describe() + " needs positions, which this model does not have");
}

std::string OnnxRecording::split_heads(const std::string& rows, std::int64_t length, std::int64_t heads,
                                       std::int64_t width) const {
  if (rows.empty()) return rows;
  if (sentences_) return g_.transpose(g_.node("Reshape", {rows, g_.integers({0, 0, heads, width})}), {0, 2, 1, 3});
  FOLDGRAD_CHECK(length >= 0, "onnx: {} must be recorded with sequences of equal length", describe());
  return g_.transpose(g_.reshape(rows, {length, heads, width}), {0, 2, 1, 3});
}

std::string OnnxRecording::merge_heads(const std::string& y) const {
  const std::string rows = g_.transpose(y, {0, 2, 1, 3});
  if (sentences_) return g_.node("Reshape", {rows, g_.integers({0, 0, result()[-1]})});
  return g_.reshape(rows, {result().begin() + 1, result().end()});
}

OnnxOperands::Keys OnnxRecording::keys(const Keys& recorded, bool causal) const {
  if (sentences_) return sentences_->attended(recorded, causal);
  FOLDGRAD_CHECK(!causal, "onnx: {} must not be causal", describe());
  return recorded;
}

std::vector<bool> OnnxRecording::needed() const {
  std::set<int> values{graph_.results[0]};
  std::vector<bool> needed(graph_.nodes.size());
  for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
    const GraphNode& node = graph_.nodes[n];
    needed[n] = values.count(node.result) > 0;
    for (std::size_t k = 0; needed[n] && k < node.operands.size(); ++k)
      if (int(k) != node.description.recorded) values.insert(node.operands[k]);
  }
  return needed;
}

// Returns the first parameter that the node depends on, or an empty string if it depends on anything but parameters.
std::string OnnxRecording::weight_before(const GraphNode& node) const {
  std::string first;
  for (int value : node.operands) {
    const auto computed = computed_.find(value);
    const std::string& name = computed != computed_.end() ? computed->second : graph_.values[value].parameter;
    if (name.empty()) return "";
    if (first.empty()) first = name;
  }
  return first;
}

}  // namespace foldgrad
