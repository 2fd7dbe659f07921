#include "models/onnx/recording.h"

#include <algorithm>

#include "engine/check.h"
#include "models/onnx/layers.h"

namespace foldgrad {
namespace {

class Recording final : public OnnxOperands {
 public:
  Recording(OnnxGraph& g, Model& model, const Graph& graph, std::map<int, std::string> given)
      : g_(g), graph_(graph), parameters_(model.values()), first_(given.begin()->second), names_(std::move(given)) {
    for (Normalizer* norm : model.normalizers()) normalizers_[norm->site()] = norm;
  }

  std::string add() {
    for (n_ = 0; n_ < int(graph_.nodes.size()); ++n_) {
      const GraphNode& node = graph_.nodes[n_];
      if (node.kind == kNormalizer) {
        names_[node.result] = onnx_normalizer(g_, normalizers_.at(node.scope), (*this)[0], shape(0).rank());
      } else if (const std::string weight = weight_before(node); !weight.empty()) {
        computed_[node.result] = graph_.uses_of(weight).size() == 1 ? weight : weight + "." + node.kind;
      } else {
        g_.at(node.scope);
        names_[node.result] = node.operation->onnx(g_, *this);
      }
    }
    return names_.at(graph_.results[0]);
  }

  std::string operator[](int k) const override {
    const int value = operand(k);
    if (const auto known = names_.find(value); known != names_.end()) return known->second;
    const std::string& name = graph_.values[value].parameter;
    FOLDGRAD_CHECK(!name.empty(), "onnx: operand {} of {} is neither computed nor a parameter", k, describe());
    return g_.initializer(name, parameters_.at(name).reshape(shape(k).sizes()));
  }

  const Shape& shape(int k) const override { return graph_.values[operand(k)].shape; }
  const Shape& result() const override { return graph_.result_shape(n_); }

  std::string matrix(int k, const Tensor& value) const override {
    const int weight = operand(k);
    const std::string& name = graph_.values[weight].parameter;
    if (name.empty()) {
      const auto computed = computed_.find(weight);
      FOLDGRAD_CHECK(computed != computed_.end(), "onnx: the weight of {} depends on the inputs", describe());
      return g_.initializer(computed->second, transposed(value));
    }
    // A table lies in the file as it is, once.
    const bool table = std::ranges::any_of(graph_.uses_of(name), [&](const GraphUse& use) {
      return graph_.nodes[use.node].description.table == use.operand;
    });
    return table ? g_.transpose((*this)[k], {1, 0}) : g_.initializer(name, transposed(value));
  }

  std::string constant(int k, const Tensor& value) const override {
    if (const auto known = names_.find(operand(k)); known != names_.end()) return known->second;
    const std::int64_t first = value.shape()[0], size = first ? value.size() / first : 0;
    const std::int64_t* numbers = value.data<std::int64_t>();
    for (std::int64_t i = size; i < value.size(); ++i)
      FOLDGRAD_CHECK(numbers[i] == numbers[i % size], "onnx: {} has other integers for each example", describe());
    OnnxGraph::Sizes sizes(value.shape().begin() + 1, value.shape().end());
    const std::string examples = g_.node("Shape", {first_}, {{"start", std::int64_t(0)}, {"end", std::int64_t(1)}});
    const std::string all = g_.node("Concat", {examples, g_.integers(sizes)}, {{"axis", std::int64_t(0)}});
    return g_.node("Expand", {g_.reshape(g_.integers({numbers, numbers + size}), sizes), all});
  }

 private:
  int operand(int k) const { return graph_.nodes[n_].operands[std::size_t(k)]; }
  std::string describe() const { return graph_.describe({n_, 0}); }

  // The first parameter that the node is computed from; empty if that is not all that it is computed from.
  std::string weight_before(const GraphNode& node) const {
    std::string first;
    for (int value : node.operands) {
      const auto computed = computed_.find(value);
      const std::string& name = computed != computed_.end() ? computed->second : graph_.values[value].parameter;
      if (name.empty()) return "";
      if (first.empty()) first = name;
    }
    return first;
  }

  // [out, in] -> [in, out]
  static Tensor transposed(const Tensor& w) {
    const std::int64_t rows = w.shape()[0], columns = w.shape()[1];
    const Tensor result = Tensor::empty({columns, rows}, DType::f32);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) result.data<float>()[c * rows + r] = w.data<float>()[r * columns + c];
    return result;
  }

  OnnxGraph& g_;
  const Graph& graph_;
  NamedTensors parameters_;
  std::string first_;  // a value whose first axis counts examples
  std::map<std::string, Normalizer*> normalizers_;
  std::map<int, std::string> names_;     // of values in the file
  std::map<int, std::string> computed_;  // from parameters alone: under these names they become weights
  int n_ = 0;                            // the node that is being added
};

}  // namespace

std::string onnx_recording(OnnxGraph& g, Model& model, const Graph& graph, std::map<int, std::string> given) {
  return Recording(g, model, graph, std::move(given)).add();
}

}  // namespace foldgrad
