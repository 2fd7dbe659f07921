#include "engine/named_tensors.h"

#include "engine/dispatch.h"

namespace foldgrad {

NamedTensors clone(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace(name, tensor.clone());
  return copies;
}

NamedTensors to(const NamedTensors& tensors, Device device) {
  NamedTensors moved;
  for (const auto& [name, tensor] : tensors) moved.emplace(name, tensor.to(device));
  return moved;
}

void require_alike(const std::string& who, const NamedTensors& own, const NamedTensors& from) {
  for (const auto& [key, tensor] : own) {
    const auto found = from.find(key);
    FOLDGRAD_CHECK(found != from.end(), "{}: the saved state has no {}", who, key);
    const Tensor& t = found->second;
    FOLDGRAD_CHECK(t.defined() && t.shape() == tensor.shape() && t.dtype() == tensor.dtype(),
                   "{}: {} of the saved state must be {} {}, got {}", who, key, name(tensor.dtype()), tensor.shape(),
                   describe(t));
  }
  for (const auto& [key, tensor] : from)
    FOLDGRAD_CHECK(own.count(key), "{}: the saved state has {}, which is not expected here", who, key);
}

void copy_into(const std::string& who, NamedTensors own, const NamedTensors& from) {
  require_alike(who, own, from);
  for (auto& [name, tensor] : own) tensor.copy_from(from.at(name));
}

}  // namespace foldgrad
