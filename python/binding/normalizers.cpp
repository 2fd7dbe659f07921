#include "python/binding/normalizers.h"

#include <nanobind/stl/pair.h>

#include "models/normalizers/kinds.h"
#include "python/binding/arrays.h"

namespace foldgrad::python {
namespace {

// Returns the options as they would be written in a configuration: window=3 becomes "3", flag_low=False becomes "0".
std::map<std::string, std::string> texts_of(const nb::kwargs& options) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : options) {
    const nb::object number = nb::isinstance<nb::bool_>(value) ? nb::object(nb::int_(value)) : nb::borrow(value);
    texts[nb::cast<std::string>(name)] = nb::cast<std::string>(nb::str(number));
  }
  return texts;
}

std::shared_ptr<SharedNormalizer> make(const std::string& name, std::int64_t channels, DType dtype,
                                       const std::string& site, const nb::kwargs& options) {
  return std::make_shared<SharedNormalizer>(
      native([&, texts = texts_of(options)] { return make_normalizer(name, texts, site, channels, dtype); }));
}

TapeVar apply(SharedNormalizer& n, const TapeVar& x, bool training) {
  x.tape->kept.push_back(n.shared_from_this());
  return record(x, [&] {
    const std::lock_guard lock(n.mutex);
    return n.norm->apply(x.var, {.training = training});
  });
}

Tensor compute(SharedNormalizer& n, nb::handle array, bool training) {
  const Tensor x = to_tensor(array);
  return native(n.mutex, [&] {
    Tape tape(/*recording=*/false);
    return n.norm->apply(tape.constant(x), {.training = training}).value();
  });
}

using Pullback = nb::typed<nb::callable, std::pair<Tensor, NamedTensors>(nb::object)>;

// Returns y of a training pass, and a function that maps dy to dx and the gradients of the parameters.
std::pair<Tensor, Pullback> vjp(const std::shared_ptr<SharedNormalizer>& n, nb::handle array) {
  const auto tape = std::make_shared<SharedTape>(true);
  const Tensor given = to_tensor(array);
  const auto [x, y] = native(n->mutex, [&] {
    const Var var = tape->get().variable(given);
    return std::pair(var, n->norm->apply(var, {.training = true}));
  });
  const auto pullback = [n, tape, x = x, y = y](nb::handle dy) {
    Tensor gradient = to_tensor(dy);
    NamedTensors of_parameters;
    const Tensor dx = native(n->mutex, [&] {
      for (Parameter* p : n->norm->parameters()) p->zero_grad();
      tape->get().backward(y, std::move(gradient));
      for (Parameter* p : n->norm->parameters())
        if (p->has_grad) of_parameters[p->name] = p->grad.clone();
      return tape->get().grad(x);
    });
    return std::pair(dx, of_parameters);
  };
  return {y.value(), nb::cast<Pullback>(nb::cpp_function(pullback, "dy"_a))};
}

std::optional<std::pair<Any, Any>> affine_map(SharedNormalizer& n) {
  const auto form = native(n.mutex, [&] { return n.norm->inference(); });
  if (!form || !form->offline() || form->map.centered) return std::nullopt;
  const auto array = [](const std::vector<double>& v) { return to_numpy(Tensor::of({std::int64_t(v.size())}, v)); };
  return std::pair(array(form->map.A), array(form->map.B));
}

Dict diagnostics(SharedNormalizer& n) {
  const NormDiagnostics d = native(n.mutex, [&] { return n.norm->diagnostics(); });
  Dict all = dict_of("iterations"_a = d.iterations, "skips"_a = d.skips);
  if (d.least_variance) all["least_variance"] = *d.least_variance;
  if (d.greatest_variance) all["greatest_variance"] = *d.greatest_variance;
  if (d.clamped) all["clamped"] = *d.clamped;
  nb::list window;
  for (const auto& means : d.window) window.append(nb::make_tuple(means.arithmetic, means.geometric));
  if (!d.window.empty()) all["window"] = window;
  return all;
}

Dicts infos() {
  Dicts all;
  for (const NormalizerInfo& info : foldgrad::normalizers()) {
    nb::dict options;
    for (const NormalizerOption& option : info.options)
      options[option.name.c_str()] = nb::make_tuple(option.default_value, option.values(), option.help);
    all.append(dict_of("name"_a = info.name, "inference"_a = name(info.inference), "summary"_a = info.summary,
                       "options"_a = options));
  }
  return all;
}

}  // namespace

void add_normalizers(nb::module_& m) {
  nb::class_<SharedNormalizer>(m, "Normalizer", doc("models/normalizers/normalizer.h"))
      .def(nb::new_(&make), "name"_a, "channels"_a, "dtype"_a = DType::f32, "site"_a = "norm", "options"_a,
           "Throws ValueError if a value is out of range, or if a name or option is unknown; the message then suggests "
           "the nearest one.")
      .def_prop_ro("name", [](const SharedNormalizer& n) { return n.norm->info().name; })
      .def_prop_ro("site", [](const SharedNormalizer& n) { return n.norm->site(); })
      .def_prop_ro("channels", [](const SharedNormalizer& n) { return n.norm->channels(); })
      .def_prop_ro("options", [](const SharedNormalizer& n) { return n.norm->options().all(); })
      .def("__call__", compute, "x"_a, "training"_a = false,
           "Returns y for an array x [..., channels]. In training, it also updates the state.")
      .def("apply", apply, "x"_a, "training"_a,
           "Records y on x's tape. In training, the forward pass updates the state, and so does the backward pass of "
           "some normalizers.")
      .def("vjp", vjp, "x"_a,
           "Runs a training pass. Returns y and a function that takes dy and returns dx and a dict of the parameters' "
           "gradients. Call the function only once.")
      .def_prop_ro("parameters",
                   [](const std::shared_ptr<SharedNormalizer>& n) { return shared(n->norm->parameters(), n); })
      .def_prop_ro(
          "state", [](const SharedNormalizer& n) { return n.norm->state(); },
          "The buffers themselves, not copies: the next step uses the values that you write into their .numpy().")
      .def(
          "statistics", [](const SharedNormalizer& n) { return n.norm->statistics(); },
          "Returns the buffers with the running estimates that inference uses.")
      .def(
          "snapshot", [](SharedNormalizer& n) { return native(n.mutex, [&] { return n.norm->snapshot(); }); },
          "Returns a copy of the state.")
      .def(
          "restore",
          [](SharedNormalizer& n, const Dict& snapshot) {
            const NamedTensors given = to_tensors(snapshot);
            native(n.mutex, [&] { n.norm->restore(given); });
          },
          "snapshot"_a,
          "Sets the state to a snapshot. Throws ValueError unless the tensors have the names, dtypes and shapes of the "
          "state.")
      .def(
          "affine", affine_map,
          "Returns A and B, f64 [channels], of the map y = A x + B at inference, or None if the normalizer is not such "
          "a map.")
      .def("diagnostics", diagnostics,
           "Returns the numbers of iterations and skips, and any other figures that the normalizer reports.");
  m.def("normalizers", infos,
        "Returns each normalizer's name, form at inference, summary, and options with their defaults, values and "
        "meanings.");
}

}  // namespace foldgrad::python
