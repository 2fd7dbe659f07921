#include "train/loop/rounded_weights.h"

#include <algorithm>
#include <functional>

#include "ops/linear/side_by_side.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

// The parameters, those together whose values lie side by side.
std::vector<std::vector<Parameter*>> runs_side_by_side(std::vector<Parameter*> parameters) {
  std::stable_sort(parameters.begin(), parameters.end(), [](const Parameter* a, const Parameter* b) {
    return std::less<const void*>()(a->value.raw(), b->value.raw());
  });
  std::vector<std::vector<Parameter*>> runs;
  for (Parameter* p : parameters) {
    if (runs.empty() || !side_by_side({runs.back().back()->value, p->value})) runs.emplace_back();
    runs.back().push_back(p);
  }
  return runs;
}

}  // namespace

RoundedWeights::RoundedWeights(const std::vector<Parameter*>& parameters) : parameters_(parameters) {
  FOLDGRAD_CHECK(!parameters.empty(), "rounded_weights: there are no parameters");
  for (Parameter* p : parameters) {
    check_operand("rounded_weights", p->name.c_str(), p->value, p->value.shape(), DType::f32, parameters[0]->value,
                  parameters[0]->name.c_str());
  }
  for (const std::vector<Parameter*>& run : runs_side_by_side(parameters)) {
    std::vector<Shape> shapes;
    for (const Parameter* p : run) shapes.push_back(p->value.shape());
    const std::vector<Tensor> places = empty_side_by_side(shapes, DType::bf16, run[0]->value.device());
    for (std::size_t k = 0; k < run.size(); ++k) values_.emplace(run[k], places[k]);
  }
  refresh();
}

void RoundedWeights::refresh() const {
  const Device device = parameters_[0]->value.device();
  const Tensor numbers = Tensor::zeros({kGroupNumbers}, DType::f64, device);
  std::vector<UpdatedTensor<float>> tensors;
  for (const Parameter* p : parameters_)
    tensors.push_back({p->value.data<float>(), nullptr, nullptr, nullptr, p->value.size(), numbers.data<double>(),
                       values_.at(p).data<bf16>()});
  FOLDGRAD_RUN(device, update, tensors, RoundRule<float>{}, nullptr);
}

}  // namespace foldgrad
