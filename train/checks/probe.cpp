#include "train/checks/probe.h"

#include <fmt/format.h>

#include "engine/dispatch.h"
#include "train/system/digest.h"

namespace foldgrad {

Probe make_probe(NamedTensors inputs, std::string description) {
  std::string bytes;
  for (const auto& [name, tensor] : inputs) {
    bytes += fmt::format("{} {} {}\n", name, foldgrad::name(tensor.dtype()), tensor.shape());
    bytes.append(static_cast<const char*>(tensor.raw()), std::size_t(tensor.bytes()));
  }
  return {std::move(inputs), std::move(description), sha256(bytes)};
}

Probe random_probe(const Model& model, std::uint64_t seed) {
  NamedTensors inputs = to(model.random_inputs(seed), Device::cpu);
  const std::int64_t count = inputs.begin()->second.shape()[0];
  return make_probe(std::move(inputs), fmt::format("{} random inputs, seed {}", count, seed));
}

}  // namespace foldgrad
