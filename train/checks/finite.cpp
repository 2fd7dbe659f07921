#include "train/checks/finite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/dispatch.h"

namespace foldgrad {

std::vector<std::int64_t> index_of(std::int64_t element, const Shape& shape) {
  std::vector<std::int64_t> index(shape.rank());
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

std::string first_non_finite(const Tensor& t) {
  if (!is_floating(t.dtype())) return "";
  const Tensor host = t.to(Device::cpu);
  std::string found;
  dispatch_floating("finite", host.dtype(), [&]<class T>(Type<T>) {
    const T *begin = host.data<T>(), *end = begin + host.size();
    const T* bad = std::find_if_not(begin, end, [](T v) { return std::isfinite(double(v)); });
    if (bad != end)
      found = fmt::format("{} at [{}]", double(*bad), fmt::join(index_of(bad - begin, host.shape()), ", "));
  });
  return found;
}

std::string reason_to_refuse(const Tensor& t) {
  constexpr std::int64_t kMost = std::int64_t(1) << 53;
  if (t.dtype() == DType::i64)
    for (const std::int64_t count : t.to(Device::cpu).values<std::int64_t>())
      if (count < 0 || count > kMost) return fmt::format("must contain counts in [0, 2^53], got {}", count);
  const std::string bad = first_non_finite(t);
  return bad.empty() ? "" : "must be finite, got " + bad;
}

std::vector<std::string> non_finite_tensors(const Model& model) {
  std::vector<std::string> all;
  const auto look = [&](const std::string& name, const Tensor& tensor) {
    if (const std::string bad = first_non_finite(tensor); !bad.empty()) all.push_back(name + ": " + bad);
  };
  for (const Parameter* p : model.parameters()) look(p->name, p->value);
  for (const auto& [name, tensor] : model.state()) look(name, tensor);
  return all;
}

std::string first_non_finite_operation(Model& model, const NamedTensors& inputs, DType dtype) {
  std::string found;
  Tape tape;
  tape.observe([&](const Node& node, const Tensor& y) {
    if (!found.empty()) return;
    if (const std::string bad = first_non_finite(y); !bad.empty())
      found = fmt::format("{}: {}: {}", node.scope(), node.name(), bad);
  });
  model.forward(inputs, {.tape = tape, .dtype = dtype});
  return found;
}

void refuse_non_finite(const std::string& what, Model& model, const NamedTensors& inputs, DType dtype) {
  const std::string operation = first_non_finite_operation(model, inputs, dtype);
  throw NonFiniteError(what + " is not finite" +
                       (operation.empty() ? "" : "; the first non-finite value is from " + operation));
}

}  // namespace foldgrad
