#include "train/loop/optimizer/optimizer.h"

#include <cmath>
#include <set>

#include "engine/dispatch.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

constexpr const char* kNames[] = {"adam", "adamw", "sgd"};  // in the order of Optimizer::Rule

void check_fraction(const char* op, const char* what, double value) {
  FOLDGRAD_CHECK(value >= 0 && value < 1, "{}: {} must be at least 0 and below 1, got {}", op, what, value);
}

// Calls f with the Adam or AdamW in the variant; both have the same members.
void with_adam(const Optimizer::Rule& rule, const auto& f) {
  if (const auto* adam = std::get_if<Adam>(&rule)) f(*adam);
  if (const auto* adamw = std::get_if<AdamW>(&rule)) f(*adamw);
}

}  // namespace

Optimizer::Optimizer(const Rule& rule, std::vector<ParameterGroup> groups) : rule_(rule), name_(kNames[rule.index()]) {
  with_adam(rule_, [&](const auto& adam) {
    check_fraction(name_, "beta1", adam.beta1);
    check_fraction(name_, "beta2", adam.beta2);
    FOLDGRAD_CHECK(adam.eps > 0 && std::isfinite(adam.eps), "{}: eps must be positive, got {}", name_, adam.eps);
  });
  if (const auto* sgd = std::get_if<Sgd>(&rule_)) {
    check_fraction(name_, "momentum", sgd->momentum);
    FOLDGRAD_CHECK(!sgd->nesterov || sgd->momentum > 0, "{}: nesterov needs a positive momentum, got 0", name_);
  }
  std::set<std::string> names;
  for (const ParameterGroup& group : groups) {
    FOLDGRAD_CHECK(group.weight_decay >= 0 && std::isfinite(group.weight_decay),
                   "{}: weight_decay must be at least 0, got {}", name_, group.weight_decay);
    FOLDGRAD_CHECK(group.rate >= 0 && std::isfinite(group.rate), "{}: rate must be at least 0, got {}", name_,
                   group.rate);
    for (Parameter* p : group.parameters) {
      FOLDGRAD_CHECK(names.insert(p->name).second, "{}: two parameters are named {}", name_, p->name);
      add(p);
    }
    groups_.push_back(group);
  }
  FOLDGRAD_CHECK(!slots_.empty(), "{}: there are no parameters", name_);
}

void Optimizer::add(Parameter* parameter) {
  const Tensor& value = parameter->value;
  FOLDGRAD_CHECK(
      value.defined() && (value.dtype() == DType::f32 || value.dtype() == DType::f64),
      "{}: {} must be f32 or f64, got {}; for training in bf16, keep it in f32 and cast it in the forward pass", name_,
      parameter->name, describe(value));
  Slot& slot = slots_.emplace_back(Slot{parameter, groups_.size(), {}, {}});
  FOLDGRAD_CHECK(value.dtype() == like().dtype() && value.device() == like().device(),
                 "{}: parameters must have the same dtype and device: {} is {}, {} is {}", name_,
                 slots_[0].parameter->name, describe(like()), parameter->name, describe(value));
  const auto zeros = [&] { return Tensor::zeros(value.shape(), value.dtype(), value.device()); };
  const auto* sgd = std::get_if<Sgd>(&rule_);
  if (!sgd || sgd->momentum > 0) slot.first = zeros();
  if (!sgd) slot.second = zeros();
}

void Optimizer::check_update(const Tensor& gradient_scale) const {
  if (gradient_scale.defined())
    check_operand(name_, "gradient_scale", gradient_scale, Shape{}, DType::f64, like(), "the first parameter");
  for (const Slot& slot : slots_) {
    const Parameter& p = *slot.parameter;
    FOLDGRAD_CHECK(p.has_grad, "{}: {} has no gradient; give the optimizer only parameters that the loss depends on",
                   name_, p.name);
    check_operand(name_, "the gradient", p.grad, p.value.shape(), p.value, p.name.c_str());
    if (p.rounded.defined())
      check_operand(name_, "the rounded value", p.rounded, p.value.shape(), DType::bf16, p.value, p.name.c_str());
    if (slot.first.defined())
      check_operand(name_, p.name.c_str(), p.value, slot.first.shape(), slot.first, "its first moment");
  }
}

void Optimizer::step(double lr, const Tensor& gradient_scale) {
  FOLDGRAD_CHECK(lr >= 0 && std::isfinite(lr), "{}: lr must be finite and at least 0, got {}", name_, lr);
  check_update(gradient_scale);
  const auto* scale = data_or_null<double>(gradient_scale);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const double rate = lr * groups_[group].rate;
    dispatch_parameters(like().dtype(), [&]<class T>(T) { update<T>(group, rate, scale); });
  }
  ++steps_;
}

std::vector<Parameter*> Optimizer::parameters() const {
  std::vector<Parameter*> all;
  for (const Slot& slot : slots_) all.push_back(slot.parameter);
  return all;
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter->zero_grad();
}

template <class T>
void Optimizer::update(std::size_t group, double lr, const double* scale) const {
  std::vector<UpdatedTensor<T>> tensors;
  for (const Slot& s : slots_) {
    if (s.group != group) continue;
    const Parameter& p = *s.parameter;
    tensors.push_back({p.value.data<T>(), p.grad.data<T>(), data_or_null<T>(s.first), data_or_null<T>(s.second),
                       p.value.size(), data_or_null<bf16>(p.rounded)});
  }
  const auto with = [&](const auto& rule) { FOLDGRAD_RUN(like().device(), update, tensors, rule, scale); };
  const double weight_decay = groups_[group].weight_decay;
  with_adam(rule_, [&](const auto& adam) {
    const double t = double(steps_ + 1);
    const double correction1 = 1 - std::pow(adam.beta1, t);
    const double correction2 = std::sqrt(1 - std::pow(adam.beta2, t));
    const bool fairseq = std::holds_alternative<Adam>(rule_);
    const double rate = lr / correction1 * (fairseq ? correction2 : 1);  // [ADAM-3, ADAM-4]
    const double root_scale = fairseq ? 1 : 1 / correction2, decay = weight_decay * lr;
    with(AdamRule<T>{T(1 - adam.beta1), T(1 - adam.beta2), T(adam.eps), T(rate), T(root_scale), T(decay)});
  });
  if (const auto* sgd = std::get_if<Sgd>(&rule_))
    with(SgdRule<T>{T(sgd->momentum), T(lr), T(weight_decay), sgd->nesterov});
}

NamedTensors Optimizer::state() const {
  NamedTensors state{{"step", Tensor::of<std::int64_t>({}, {steps_})}};
  const bool sgd = std::holds_alternative<Sgd>(rule_);
  for (const Slot& slot : slots_) {
    if (slot.first.defined()) state[(sgd ? "momentum." : "exp_avg.") + slot.parameter->name] = slot.first;
    if (slot.second.defined()) state["exp_avg_sq." + slot.parameter->name] = slot.second;
  }
  return state;
}

void Optimizer::load_state(const NamedTensors& saved) {
  const NamedTensors own = state();
  require_alike(name_, own, saved);
  const auto step = std::int64_t(saved.at("step").item());
  FOLDGRAD_CHECK(step >= 0, "{}: step of the saved state must be at least 0, got {}", name_, step);
  copy_into(name_, own, saved);
  steps_ = step;
}

void round_values(const std::vector<Parameter*>& parameters) {
  for (Parameter* p : parameters)
    check_operand("round_values", p->name.c_str(), p->value, p->value.shape(), DType::f32, parameters[0]->value,
                  parameters[0]->name.c_str());
  for (Parameter* p : parameters) {
    if (!p->rounded.defined()) p->rounded = Tensor::empty(p->value.shape(), DType::bf16, p->value.device());
    accumulate(p->rounded, p->value, GradMode::set);
  }
}

}  // namespace foldgrad
