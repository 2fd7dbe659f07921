#include "train/loop/rounded_weights.h"

#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
RoundedWeights::RoundedWeights(const std::vector<Parameter*>& parameters) : parameters_(parameters) {
  FOLDGRAD_CHECK(!parameters.empty(), "rounded_weights: there are no parameters");
  for (Parameter* p : parameters) {
    check_operand("rounded_weights", p->name.c_str(), p->value, p->value.shape(), DType::f32, parameters[0]->value,
                  parameters[0]->name.c_str());
    values_.emplace(p, Tensor::empty(p->value.shape(), DType::bf16, p->value.device()));
  }
  refresh();
}

void RoundedWeights::refresh() const {
  const Device device = parameters_[0]->value.device();
  std::vector<UpdatedTensor<float>> tensors;
  for (const Parameter* p : parameters_)
    tensors.push_back({p->value.data<float>(), nullptr, nullptr, nullptr, p->value.size(), values_.at(p).data<bf16>()});
  FOLDGRAD_RUN(device, update, tensors, RoundRule<float>{}, nullptr);
}

}  // namespace foldgrad
