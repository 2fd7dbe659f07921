#include "models/onnx/graph.h"

#include <fmt/format.h>

namespace foldgrad {

std::string OnnxGraph::number(double value) {
  return initializer(fmt::format("{}", float(value)), Tensor::full(Shape{}, value, DType::f32));
}

std::string OnnxGraph::integer(std::int64_t value) {
  return initializer(fmt::format("int {}", value), Tensor::of<std::int64_t>(Shape{}, {value}));
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return initializer(fmt::format("[{}]", fmt::join(values, ", ")),
                     Tensor::of<std::int64_t>({std::int64_t(values.size())}, values));
}

}  // namespace foldgrad
