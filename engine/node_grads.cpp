#include <algorithm>

#include "engine/tape.h"

namespace foldgrad {

std::pair<Tensor, GradMode> NodeGrads::place(int k) {
  const int id = node_.inputs()[k];
  return tape_.slots_[id].wants_grad && tape_.slots_[id].rounded() ? temporary(id) : exact_place(k);
}

std::pair<Tensor, GradMode> NodeGrads::exact_place(int k) {
  const int id = node_.inputs()[k];
  Tape::Slot& slot = tape_.slots_[id];
  if (!slot.wants_grad) return {Tensor(), GradMode::set};
  return repeats(k) ? temporary(id) : Tape::place_of(slot);
}

bool NodeGrads::repeats(int k) const {
  const std::vector<int>& inputs = node_.inputs();
  return std::find(inputs.begin(), inputs.begin() + k, inputs[k]) != inputs.begin() + k;
}

std::pair<Tensor, GradMode> NodeGrads::temporary(int id) {
  const Tape::Slot& slot = tape_.slots_[id];
  temporary_.emplace_back(id, Tensor::empty(slot.shape, slot.dtype, slot.device));
  return {temporary_.back().second, GradMode::set};
}

void NodeGrads::pass_dy(int k) {
  const int id = node_.inputs()[k];
  Tape::Slot& slot = tape_.slots_[id];
  if (!slot.wants_grad) return;
  const Tensor shaped = dy_.reshape(slot.shape);
  // Contributions are added in place, so dy's memory may become the gradient of one operand only.
  Tensor& grad = slot.parameter ? slot.parameter->grad : slot.grad;
  if (grad.shares_storage_with(dy_)) grad = grad.clone();
  const bool first = !slot.grad.defined() && !(slot.parameter && slot.parameter->has_grad);
  tape_.contribute(id, first && dy_taken_ ? shaped.clone() : shaped);
  dy_taken_ |= first;
}

void NodeGrads::finish() {
  for (const auto& [id, grad] : temporary_) tape_.contribute(id, grad);
}

}  // namespace foldgrad
