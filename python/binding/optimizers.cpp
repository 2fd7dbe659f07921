#include "ops/arithmetic/arithmetic.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"
#include "train/loop/optimizer/gradient_clipping.h"
#include "train/loop/optimizer/optimizer.h"

namespace foldgrad::python {
namespace {

// An optimizer that keeps its parameters alive.
struct SharedOptimizer {
  SharedParameters kept;
  Optimizer optimizer;
  std::recursive_mutex mutex;

  SharedOptimizer(const Optimizer::Rule& rule, SharedParameters parameters, const std::vector<ParameterGroup>& groups)
      : kept(std::move(parameters)), optimizer(rule, groups) {}
};

using Groups = nb::typed<nb::sequence, nb::any>;

// Makes an optimizer. The elements of `groups` are Parameters, or dicts with parameters, weight_decay and rate.
std::shared_ptr<SharedOptimizer> make(const Optimizer::Rule& rule, const Groups& groups, double weight_decay) {
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
      throw nb::type_error("an optimizer needs Parameters, or dicts with parameters, weight_decay and rate");
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
        throw std::invalid_argument(
            fmt::format("a group may only have parameters, weight_decay and rate, got \"{}\"", name));
      }
    }
  }
  if (!single.empty()) all.push_back({single, weight_decay});
  return std::make_shared<SharedOptimizer>(rule, std::move(kept), all);
}

template <class Rule>
void def_adam(nb::module_& m, const char* name, const char* text) {
  m.def(
      name,
      [](const Groups& groups, double beta1, double beta2, double eps, double weight_decay) {
        return make(Rule{beta1, beta2, eps}, groups, weight_decay);
      },
      "groups"_a, nb::kw_only(), "beta1"_a = Rule().beta1, "beta2"_a = Rule().beta2, "eps"_a = Rule().eps,
      "weight_decay"_a = 0.0, text);
}

// Scales the gradients in place, as PyTorch does.
double clip(const SharedParameters& parameters, double max_norm) {
  const GradientClip clip = clip_by_norm(pointers(parameters), max_norm);
  const double factor = clip.factor.item();
  Tape tape(/*recording=*/false);
  if (factor != 1)
    for (const auto& p : parameters) p->grad.copy_from(scale(tape.constant(p->grad), factor).value());
  return clip.norm.item();
}

}  // namespace

void add_optimizers(nb::module_& m) {
  nb::class_<SharedOptimizer>(m, "Optimizer", doc("train/loop/optimizer/optimizer.h"))
      .def(
          "step", [](SharedOptimizer& o, double lr) { native(o.mutex, [&] { o.optimizer.step(lr); }); }, "lr"_a,
          "Updates every parameter with its gradient. Throws ValueError, and changes nothing, if a parameter has no "
          "gradient, or if lr is negative or not finite.")
      .def(
          "zero_grad", [](SharedOptimizer& o) { native(o.mutex, [&] { o.optimizer.zero_grad(); }); },
          "Drops all gradients. Call this method before each backward pass, since gradients add up otherwise.")
      .def_prop_ro("steps", [](const SharedOptimizer& o) { return o.optimizer.steps(); })
      .def_ro("parameters", &SharedOptimizer::kept)
      .def(
          "state", [](SharedOptimizer& o) { return native(o.mutex, [&] { return clone(o.optimizer.state()); }); },
          "Returns a copy of the step count and the moments, for load_state().")
      .def(
          "load_state",
          [](SharedOptimizer& o, const Dict& state) {
            const NamedTensors given = to_tensors(state);
            native(o.mutex, [&] { o.optimizer.load_state(given); });
          },
          "state"_a,
          "Restores a copy that state() returned. Throws ValueError, and changes nothing, if a tensor is missing, "
          "unknown or of the wrong dtype or shape.");
  def_adam<Adam>(m, "Adam",
                 "Returns an Adam optimizer as in fairseq, for Parameters or for groups. A group is a dict with "
                 "parameters, weight_decay and rate (a factor of the learning rate).");
  def_adam<AdamW>(m, "AdamW",
                  "Returns an AdamW optimizer that updates as PyTorch's does. Takes the same arguments as Adam().");
  m.def(
      "SGD",
      [](const Groups& groups, double momentum, bool nesterov, double weight_decay) {
        return make(Sgd{momentum, nesterov}, groups, weight_decay);
      },
      "groups"_a, nb::kw_only(), "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0,
      "Returns an SGD optimizer as in PyTorch, without dampening. `groups` and `weight_decay` are as in Adam().");
  m.def("clip_by_norm", clip, "parameters"_a, "max_norm"_a, Native(),
        "Multiplies the gradients by min(1, max_norm / (norm + 1e-6)) and returns the original norm.");
}

}  // namespace foldgrad::python
