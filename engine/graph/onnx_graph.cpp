#include "engine/graph/onnx_graph.h"

#include <fmt/format.h>

namespace foldgrad {

std::string OnnxGraph::reshape(const std::string& x, Sizes others) {
  others.insert(others.begin(), -1);
  return node("Reshape", {x, integers(others)});
}

std::string OnnxGraph::number(double value) {
  return initializer(fmt::format("{}", float(value)), Tensor::full(Shape{}, value, DType::f32));
}

std::string OnnxGraph::integer(std::int64_t value) {
  return initializer(fmt::format("int {}", value), Tensor::of<std::int64_t>(Shape{}, {value}));
}

std::string OnnxGraph::integers(const Sizes& values) {
  return initializer(fmt::format("[{}]", fmt::join(values, ", ")),
                     Tensor::of<std::int64_t>({std::int64_t(values.size())}, values));
}

}  // namespace foldgrad
