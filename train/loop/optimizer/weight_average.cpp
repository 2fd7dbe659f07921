#include "train/loop/optimizer/weight_average.h"

#include <set>

#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {

WeightAverage::WeightAverage(std::vector<Parameter*> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  FOLDGRAD_CHECK(decay >= 0 && decay < 1, "weight_average: decay must be at least 0 and below 1, got {}", decay);
  FOLDGRAD_CHECK(!parameters_.empty(), "weight_average: there are no parameters");
  const Parameter& first = *parameters_[0];
  FOLDGRAD_CHECK(first.value.defined() && (first.value.dtype() == DType::f32 || first.value.dtype() == DType::f64),
                 "weight_average: {} must be f32 or f64, got {}", first.name, describe(first.value));
  std::set<std::string> names;
  for (const Parameter* p : parameters_) {
    FOLDGRAD_CHECK(names.insert(p->name).second, "weight_average: two parameters are called {}", p->name);
    check_operand("weight_average", p->name.c_str(), p->value, p->value.shape(), first.value, first.name.c_str());
    averages_.push_back(p->value.clone());
  }
}

template <class T>
void WeightAverage::update_as() const {
  std::vector<UpdatedTensor<T>> tensors;
  tensors.reserve(averages_.size());
  for (std::size_t k = 0; k < averages_.size(); ++k)
    tensors.push_back({averages_[k].data<T>(), parameters_[k]->value.data<T>(), nullptr, nullptr, averages_[k].size(),
                       T(1 - decay_), T(0)});
  FOLDGRAD_RUN(averages_[0].device(), update, tensors, AverageRule<T>{}, nullptr);
}

void WeightAverage::update() { averages_[0].dtype() == DType::f32 ? update_as<float>() : update_as<double>(); }

void WeightAverage::swap() {
  for (std::size_t k = 0; k < averages_.size(); ++k) {
    const Tensor value = parameters_[k]->value.clone();
    parameters_[k]->value.copy_from(averages_[k]);
    averages_[k].copy_from(value);
  }
}

NamedTensors WeightAverage::state() const {
  NamedTensors state;
  for (std::size_t k = 0; k < averages_.size(); ++k) state[parameters_[k]->name] = averages_[k];
  return state;
}

void WeightAverage::load_state(const NamedTensors& saved) { copy_into("weight_average", state(), saved); }

}  // namespace foldgrad
