#include "engine/node_grads.h"

#include <span>

#include "engine/contains.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {

void accumulate(const Tensor& target, const Tensor& source, GradMode mode) {
  check_operand("accumulate", "source", source, target.shape(), source.dtype(), target, "target");
  dispatch_floating("accumulate", source.dtype(), [&]<class From>(Type<From>) {
    dispatch_floating("accumulate", target.dtype(), [&]<class To>(Type<To>) {
      const Accumulate<From, To> p{{target.data<To>(), mode}, source.data<From>(), target.size()};
      FOLDGRAD_RUN(target.device(), elementwise, p);
    });
  });
}

std::pair<Tensor, GradMode> NodeGrads::place(int k, DType dtype, const Tensor& spent) {
  Tape::Slot& operand = slot(k);
  if (!operand.wants_grad) return {Tensor(), GradMode::set};
  if (spent.owns_storage() && !operand.parameter && !operand.has_grad())
    return {operand.own_grad = spent, GradMode::set};
  const std::span inputs(node_.inputs());
  const bool repeats = contains(inputs.first(std::size_t(k)), inputs[k]);  // an earlier operand is the same value
  if (dtype == operand.grad_dtype() && !repeats) return Tape::place_of(operand);
  temporary_.emplace_back(inputs[k], Tensor::empty(operand.shape, dtype, operand.device));
  return {temporary_.back().second, GradMode::set};
}

void NodeGrads::pass_dy(int k) {
  Tape::Slot& operand = slot(k);
  if (!operand.wants_grad) return;
  const Tensor shaped = dy_.reshape(operand.shape);
  // Contributions are added in place, so only one operand's gradient may use dy's memory, and none if dy is external.
  if (operand.grad().shares_storage_with(dy_)) operand.grad() = operand.grad().clone();
  const bool first = !operand.has_grad();
  tape_.contribute(node_.inputs()[k], first && (dy_taken_ || dy_.is_external()) ? shaped.clone() : shaped);
  dy_taken_ |= first;
}

}  // namespace foldgrad
