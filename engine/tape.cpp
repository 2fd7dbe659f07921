#include "engine/tape.h"

#include <algorithm>
#include <utility>

#include "engine/node_grads.h"

namespace foldgrad {

void Tape::clear() {
  nodes_.clear();
  slots_.clear();
  parameters_.clear();
  consumed_ = false;
  ++generation_;
}

Var Tape::add_value(Tensor value, bool wants_grad, bool produced, Parameter* parameter) {
  FOLDGRAD_CHECK(value.defined(), "tape: a recorded value must be a defined tensor");
  if (!recording_) return Var(this, std::move(value), -1, generation_);
  slots_.push_back({value.shape(), value.dtype(), value.device(), wants_grad, produced, parameter});
  return Var(this, std::move(value), int(slots_.size()) - 1, generation_);
}

Var Tape::constant(Tensor value) { return add_value(std::move(value), false, false); }

Var Tape::variable(Tensor value) {
  FOLDGRAD_CHECK(is_floating(value.dtype()), "tape: only f32, f64 and bf16 have gradients, got a variable of {}",
                 name(value.dtype()));
  return add_value(std::move(value), true, false);
}

Var Tape::parameter(Parameter& parameter) {
  FOLDGRAD_CHECK(parameter.value.defined(), "tape: parameter {} has no value", parameter.name);
  return add_parameter(parameter, parameter.value);
}

Var Tape::parameter(Parameter& parameter, Tensor rounded) {
  check_operand("tape", parameter.name.c_str(), parameter.value, rounded.shape(), DType::f32, rounded, "its rounding");
  check_operand("tape", "the rounding", rounded, rounded.shape(), DType::bf16, parameter.value, parameter.name.c_str());
  return add_parameter(parameter, std::move(rounded));
}

Var Tape::add_parameter(Parameter& parameter, Tensor value) {
  if (!recording_) return add_value(std::move(value), true, false, &parameter);
  const auto [known, is_new] = parameters_.try_emplace({&parameter, value.dtype()}, int(slots_.size()));
  if (is_new) return add_value(std::move(value), true, false, &parameter);
  return Var(this, std::move(value), known->second, generation_);
}

void Tape::check_operands(const char* op, const std::vector<Var>& operands) const {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Var& v = operands[i];
    FOLDGRAD_CHECK(v.tape_ == this, "{}: operand {} must be on this operation's tape, got {}", op, i,
                   v.tape_ ? "one on another tape" : "an empty one");
    FOLDGRAD_CHECK(v.generation_ == generation_, "{}: operand {} was recorded before the tape was cleared", op, i);
    FOLDGRAD_CHECK(!recording_ || v.id_ >= 0, "{}: operand {} was computed while recording was off", op, i);
  }
  FOLDGRAD_CHECK(!recording_ || !consumed_, "{}: backward has run; clear the tape before recording again", op);
}

bool Tape::wants_grad(const std::vector<Var>& operands) const {
  return recording_ && std::ranges::any_of(operands, [&](const Var& v) { return slots_[v.id_].wants_grad; });
}

Var Tape::add_node(Tensor y, const std::vector<Var>& operands, std::shared_ptr<Node> node) {
  const Var out = add_value(std::move(y), true, true);
  node->inputs_.reserve(operands.size());
  for (const Var& v : operands) node->inputs_.push_back(v.id_);
  node->output_ = out.id_;
  node->scope_ = scope_;
  nodes_.push_back(std::move(node));
  if (observe_result_) observe_result_(*nodes_.back(), out.value());
  return out;
}

void Tape::check_variable(const char* call, const Var& v) const {
  FOLDGRAD_CHECK(v.tape_ == this && v.generation_ == generation_ && v.id_ >= 0,
                 "tape: {} needs a value from the tape's current recording", call);
}

void Tape::backward(const Var& y, Tensor dy) {
  if (!dy.defined()) {
    FOLDGRAD_CHECK(y.value().size() == 1, "tape: backward without dy needs a y with one element, got {}", y.shape());
    dy = Tensor::full(y.shape(), 1, y.dtype(), y.device());
  }
  seed_gradient(y, std::move(dy));
  consumed_ = true;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    Slot& result = slots_[(*node)->output()];
    Tensor grad = std::exchange(result.own_grad, Tensor());
    if (grad.defined()) {
      if (observe_gradient_) observe_gradient_(**node, grad);
      NodeGrads grads(*this, **node, std::move(grad));
      (*node)->backward(grads);
      for (const auto& [id, contribution] : grads.temporary_) contribute(id, contribution);
    }
    node->reset();
  }
  nodes_.clear();
}

void Tape::seed_gradient(const Var& y, Tensor dy) {
  check_variable("backward", y);
  FOLDGRAD_CHECK(!consumed_, "tape: backward has already run on this recording; record it again");
  check_operand("tape", "dy", dy, y.shape(), y.value(), "y");
  FOLDGRAD_CHECK(slots_[y.id_].wants_grad, "tape: backward needs a value that depends on a variable or a parameter");
  // The gradient of a result is only read, so an external dy needs no copy.
  contribute(y.id_, dy.owns_storage() || (dy.is_external() && slots_[y.id_].produced) ? dy : dy.clone());
}

void Tape::contribute(int id, const Tensor& grad) {
  Slot& slot = slots_[id];
  if (slot.has_grad() || grad.dtype() != slot.grad_dtype()) {
    const auto [place, mode] = place_of(slot);
    return accumulate(place, grad, mode);
  }
  slot.grad() = grad;
  if (slot.parameter) slot.parameter->has_grad = true;
}

std::pair<Tensor, GradMode> Tape::place_of(Slot& slot) {
  Tensor& grad = slot.grad();
  // The parameter's gradient may date from when its value had another shape, dtype or device.
  const bool fits =
      grad.defined() && grad.shape() == slot.shape && grad.dtype() == slot.grad_dtype() && grad.device() == slot.device;
  const GradMode mode = fits && slot.has_grad() ? GradMode::add : GradMode::set;
  if (!fits) grad = Tensor::empty(slot.shape, slot.grad_dtype(), slot.device);
  if (slot.parameter) slot.parameter->has_grad = true;
  return {grad, mode};
}

Tensor Tape::grad(const Var& variable) const {
  check_variable("grad()", variable);
  Slot slot = slots_[variable.id_];
  FOLDGRAD_CHECK(!slot.produced, "tape: only variables and parameters have a grad(); results of operations do not");
  return slot.has_grad() ? slot.grad() : Tensor();
}

Tape::Scope::Scope(Tape& tape, const std::string& name)
    : tape_(tape),
      outer_(std::exchange(tape.scope_,
                           &*tape.scopes_.insert(tape.scope_->empty() ? name : *tape.scope_ + "." + name).first)) {}

}  // namespace foldgrad
