#include <algorithm>

#include "engine/tape.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {

void accumulate(const Tensor& target, const Tensor& source, GradMode mode) {
  const DType to = target.dtype(), from = source.dtype();
  const bool widens = to == DType::f32 && from == DType::bf16, rounds = to == DType::bf16 && from == DType::f32;
  check_operand("accumulate", "source", source, target.shape(), widens || rounds ? from : to, target, "target");
  const auto run = [&](const auto& p) { FOLDGRAD_RUN(target.device(), elementwise, p); };
  if (widens) return run(AccumulateBf16{{target.data<float>(), mode}, source.data<bf16>(), target.size()});
  if (rounds) return run(AccumulateInBf16{{target.data<bf16>(), mode}, source.data<float>(), target.size()});
  dispatch_floating("accumulate", to, [&]<class T>(Type<T>) {
    run(Accumulate<T>{{target.data<T>(), mode}, source.data<T>(), target.size()});
  });
}

std::pair<Tensor, GradMode> NodeGrads::place(int k, DType dtype) {
  Tape::Slot& operand = slot(k);
  if (!operand.wants_grad) return {Tensor(), GradMode::set};
  if (dtype == operand.grad_dtype() && !repeats(k)) return Tape::place_of(operand);
  temporary_.emplace_back(node_.inputs()[k], Tensor::empty(operand.shape, dtype, operand.device));
  return {temporary_.back().second, GradMode::set};
}

bool NodeGrads::repeats(int k) const {
  const std::vector<int>& inputs = node_.inputs();
  return std::find(inputs.begin(), inputs.begin() + k, inputs[k]) != inputs.begin() + k;
}

void NodeGrads::pass_dy(int k) {
  Tape::Slot& operand = slot(k);
  if (!operand.wants_grad) return;
  const Tensor shaped = dy_.reshape(operand.shape);
  // Contributions are added in place, so dy's memory may become the gradient of one operand only.
  if (operand.grad().shares_storage_with(dy_)) operand.grad() = operand.grad().clone();
  const bool first = !operand.has_grad();
  tape_.contribute(node_.inputs()[k], first && dy_taken_ ? shaped.clone() : shaped);
  dy_taken_ |= first;
}

void NodeGrads::finish() {
  for (const auto& [id, grad] : temporary_) tape_.contribute(id, grad);
}

}  // namespace foldgrad
