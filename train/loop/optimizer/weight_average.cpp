#include "train/loop/optimizer/weight_average.h"

#include <algorithm>

#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {

WeightAverage::WeightAverage(const std::vector<Parameter*>& parameters, double decay, const NamedTensors& statistics)
    : decay_(decay) {
  FOLDGRAD_CHECK(decay >= 0 && decay < 1, "weight_average: decay must be at least 0 and below 1, got {}", decay);
  FOLDGRAD_CHECK(!parameters.empty(), "weight_average: there are no parameters");
  const Parameter& first = *parameters[0];
  FOLDGRAD_CHECK(first.value.defined() && (first.value.dtype() == DType::f32 || first.value.dtype() == DType::f64),
                 "weight_average: {} must be f32 or f64, got {}", first.name, describe(first.value));
  for (const Parameter* p : parameters) add(p->name, p->value);
  for (const auto& [name, tensor] : statistics) add(name, tensor);
}

void WeightAverage::add(const std::string& name, const Tensor& value) {
  FOLDGRAD_CHECK(std::ranges::find(averaged_, name, &Averaged::name) == averaged_.end(),
                 "weight_average: two parameters are named {}", name);
  if (!averaged_.empty())
    check_operand("weight_average", name.c_str(), value, value.shape(), averaged_[0].value, averaged_[0].name.c_str());
  averaged_.push_back({name, value, value.clone()});
}

void WeightAverage::update() {
  dispatch_parameters(averaged_[0].average.dtype(), [&]<class T>(T) {
    std::vector<UpdatedTensor<T>> tensors;
    for (const Averaged& a : averaged_)
      tensors.push_back({a.average.data<T>(), a.value.data<T>(), nullptr, nullptr, a.value.size()});
    FOLDGRAD_RUN(averaged_[0].average.device(), update, tensors, AverageRule<T>{T(1 - decay_)}, nullptr);
  });
}

void WeightAverage::swap() {
  for (auto& [name, value, average] : averaged_) {
    const Tensor kept = value.clone();
    value.copy_from(average);
    average.copy_from(kept);
  }
}

NamedTensors WeightAverage::state() const {
  NamedTensors state;
  for (const auto& [name, value, average] : averaged_) state[name] = average;
  return state;
}

void WeightAverage::load_state(const NamedTensors& saved) { copy_into("weight_average", state(), saved); }

}  // namespace foldgrad
