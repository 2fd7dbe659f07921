#include "python/binding/arrays.h"
#include "python/binding/tape.h"
#include "train/loop/optimizer/gradient_clipping.h"
#include "train/loop/optimizer/optimizer.h"

namespace foldgrad::python {
namespace {

// An optimizer that keeps its parameters.
struct SharedOptimizer {
  SharedParameters kept;
  Optimizer optimizer;
  std::recursive_mutex mutex;

  SharedOptimizer(const Optimizer::Rule& rule, SharedParameters parameters, const std::vector<ParameterGroup>& groups)
      : kept(std::move(parameters)), optimizer(rule, groups) {}
};

// `groups`: Parameters, or dicts with parameters, weight_decay and rate.
std::shared_ptr<SharedOptimizer> make(const Optimizer::Rule& rule, const nb::sequence& groups, double weight_decay) {
  SharedParameters kept;
  std::vector<ParameterGroup> all;
  std::vector<Parameter*> single;
  for (const nb::handle group : groups) {
    std::shared_ptr<Parameter> parameter;
    if (nb::try_cast(group, parameter)) {
      kept.push_back(parameter);
      single.push_back(parameter.get());
      continue;
    }
    if (!nb::isinstance<nb::dict>(group))
      throw nb::type_error("an optimizer takes Parameters, or dicts with parameters, weight_decay and rate");
    ParameterGroup& added = all.emplace_back();
    for (const auto& [key, value] : nb::borrow<nb::dict>(group)) {
      const std::string name = nb::cast<std::string>(key);
      if (name == "parameters") {
        const auto own = nb::cast<SharedParameters>(value);
        kept.insert(kept.end(), own.begin(), own.end());
        added.parameters = pointers(own);
      } else if (name == "weight_decay") {
        added.weight_decay = nb::cast<double>(value);
      } else if (name == "rate") {
        added.rate = nb::cast<double>(value);
      } else {
        throw nb::value_error(fmt::format("a group has parameters, weight_decay and rate, got \"{}\"", name).c_str());
      }
    }
  }
  if (!single.empty()) all.push_back({single, weight_decay});
  return std::make_shared<SharedOptimizer>(rule, std::move(kept), all);
}

template <class T>
void multiply(const Tensor& gradient, double factor) {
  for (std::int64_t i = 0; i < gradient.size(); ++i) gradient.data<T>()[i] *= T(factor);
}

// Scales the gradients themselves, as PyTorch does.
double clip(const SharedParameters& parameters, double max_norm) {
  return native([&] {
    const GradientClip clip = clip_by_norm(pointers(parameters), max_norm);
    const double norm = clip.norm.item(), factor = clip.factor.item();
    if (factor == 1) return norm;
    for (const auto& p : parameters) {
      const Tensor host = p->grad.to(Device::cpu);
      host.dtype() == DType::f64 ? multiply<double>(host, factor) : multiply<float>(host, factor);
      if (p->grad.device() != Device::cpu) p->grad.copy_from(host);
    }
    return norm;
  });
}

}  // namespace

void add_optimizers(nb::module_& m) {
  nb::class_<SharedOptimizer>(m, "Optimizer", doc("train/loop/optimizer/optimizer.h"))
      .def(
          "step", [](SharedOptimizer& o, double lr) { native(o.mutex, [&] { o.optimizer.step(lr); }); }, "lr"_a,
          "Updates every parameter by its gradient. Throws ValueError, before anything has changed, if a parameter has "
          "no gradient, and for a negative lr or one that is not finite.")
      .def(
          "zero_grad", [](SharedOptimizer& o) { native(o.mutex, [&] { o.optimizer.zero_grad(); }); },
          "Drops every gradient. Call it before the next backward pass, since gradients add up otherwise.")
      .def_prop_ro("steps", [](const SharedOptimizer& o) { return o.optimizer.steps(); })
      .def_ro("parameters", &SharedOptimizer::kept)
      .def(
          "state", [](SharedOptimizer& o) { return native(o.mutex, [&] { return clone(o.optimizer.state()); }); },
          "Returns a copy of step and moments, for load_state().")
      .def(
          "load_state",
          [](SharedOptimizer& o, const nb::dict& state) {
            const NamedTensors given = to_tensors(state);
            native(o.mutex, [&] { o.optimizer.load_state(given); });
          },
          "state"_a,
          "Throws ValueError, before anything has changed, if a tensor is missing, unknown or does not fit.");
  m.def(
      "Adam",
      [](const nb::sequence& groups, double beta1, double beta2, double eps, double weight_decay) {
        return make(Adam{beta1, beta2, eps}, groups, weight_decay);
      },
      "groups"_a, nb::kw_only(), "beta1"_a = Adam().beta1, "beta2"_a = Adam().beta2, "eps"_a = Adam().eps,
      "weight_decay"_a = 0.0,
      "Returns fairseq's Adam of Parameters or of groups: dicts with parameters, weight_decay "
      "and rate, the factor of the learning rate.");
  m.def(
      "AdamW",
      [](const nb::sequence& groups, double beta1, double beta2, double eps, double weight_decay) {
        return make(AdamW{beta1, beta2, eps}, groups, weight_decay);
      },
      "groups"_a, nb::kw_only(), "beta1"_a = AdamW().beta1, "beta2"_a = AdamW().beta2, "eps"_a = AdamW().eps,
      "weight_decay"_a = 0.0, "Returns PyTorch's AdamW; arguments as in Adam().");
  m.def(
      "SGD",
      [](const nb::sequence& groups, double momentum, bool nesterov, double weight_decay) {
        return make(Sgd{momentum, nesterov}, groups, weight_decay);
      },
      "groups"_a, nb::kw_only(), "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0,
      "Returns PyTorch's SGD without dampening; arguments as in Adam().");
  m.def("clip_by_norm", clip, "parameters"_a, "max_norm"_a,
        "Multiplies the gradients by min(1, max_norm / (norm + 1e-6)) and returns their norm before.");
}

}  // namespace foldgrad::python
