// Models put together once more from operations alone, for comparison: a forward pass in f64 on the CPU, which knows
// parameters by their names.
#pragma once
#include "engine/named_tensors.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"

namespace foldgrad::testing {

class Assembled {
 public:
  explicit Assembled(const NamedTensors& values) : values_(values) {}

 protected:
  Var value(const std::string& name) { return tape_.constant(values_.at(name)); }
  // With NAME.weight and, if there is one, NAME.bias.
  Var project(const std::string& name, const Var& x) {
    if (!values_.count(name + ".bias")) return linear(x, value(name + ".weight"));
    return linear(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, value(name + ".weight"), value(name + ".bias"));
  }

  Tape tape_{/*recording=*/false};

 private:
  const NamedTensors values_;
};

}  // namespace foldgrad::testing
