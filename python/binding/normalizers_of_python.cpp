// Binds register_normalizer(), which registers normalizers that are written in Python. Models, configurations, checks
// and folding then find them by name.
#include <fmt/format.h>

#include <map>

#include "models/normalizers/kinds.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"

namespace foldgrad::python {
namespace {

// A copy of a NormalizerSite. Python may keep this copy.
struct Site {
  NormalizerInfo info;
  NormalizerOptions options;
  std::string name;
  std::int64_t channels;
  DType dtype;
  Device device;

  explicit Site(const NormalizerSite& s)
      : info(s.info), options(s.options), name(s.site), channels(s.channels), dtype(s.dtype), device(s.device) {}
  NormalizerSite site() const { return {info, options, name, channels, dtype, device}; }
};

// The registered classes by name. The map is never destroyed, since the interpreter may exit first.
std::map<std::string, nb::object>& classes() {
  static auto* const all = new std::map<std::string, nb::object>;
  return *all;
}

class NormalizerOfPython final : public Normalizer {
 public:
  NormalizerOfPython(const NormalizerSite& site, nb::object object)
      : Normalizer(site), parameters_(nb::cast<SharedParameters>(object.attr("parameters"))) {
    object_ = kept(std::move(object));
    state();  // reports a wrong state before the first batch
  }

  std::vector<Parameter*> parameters() override { return pointers(parameters_); }

  // Reads the dict each time, since the class may have put another Tensor into it. An array is an error, since a
  // checkpoint would be restored into a copy of it.
  NamedTensors state() const override {
    const nb::gil_scoped_acquire held;
    NamedTensors tensors;
    if (!nb::hasattr(*object_, "state")) return tensors;
    nb::dict state;
    if (!nb::try_cast(object_->attr("state"), state)) throw nb::type_error("a normalizer's state must be a dict");
    for (const auto& [name, value] : state) {
      const std::string key = nb::cast<std::string>(nb::str(name));
      if (!nb::try_cast(value, tensors[key]))
        throw nb::type_error(fmt::format("state[\"{}\"] of a normalizer must be a Tensor, so that a checkpoint can "
                                         "restore it; foldgrad.Tensor(array) copies the array",
                                         key)
                                 .c_str());
    }
    return tensors;
  }

  std::optional<InferenceForm> inference() const override {
    const nb::gil_scoped_acquire held;
    if (!nb::hasattr(*object_, "affine")) return std::nullopt;
    const nb::tuple map = nb::cast<nb::tuple>(object_->attr("affine")());
    if (nb::len(map) != 2) throw nb::type_error("affine() of a normalizer must return A and B");
    return InferenceForm{.map = AffineMap::of(to_tensor(map[0]), to_tensor(map[1]))};
  }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const nb::gil_scoped_acquire held;
    const auto tape = std::make_shared<SharedTape>(x.tape());
    struct End {  // invalidates the values of this forward pass, which must not be used after it
      SharedTape& tape;
      ~End() { tape.tape = nullptr; }
    } end{*tape};
    const nb::object y = object_->attr("forward")(TapeVar{tape, x}, context.training);
    TapeVar result;
    if (!nb::try_cast(y, result)) throw nb::type_error("forward() of a normalizer must return a Var");
    return result.var;
  }

  SharedParameters parameters_;
  std::shared_ptr<nb::object> object_;
};

std::unique_ptr<Normalizer> make_of_python(const NormalizerSite& site) {
  const nb::gil_scoped_acquire held;
  return std::make_unique<NormalizerOfPython>(site, classes().at(site.info.name)(Site{site}));
}

NormalizerOption option(const std::string& name, const nb::tuple& row) {
  if (nb::len(row) != 4) throw nb::type_error("an option must be a tuple (default, least, most, help)");
  const std::string help = nb::cast<std::string>(row[3]);
  return number_option(name.c_str(), nb::cast<std::string>(nb::str(nb::handle(row[0]))).c_str(), help.c_str(),
                       within(nb::cast<double>(row[1]), nb::cast<double>(row[2])));
}

void register_class(const nb::object& type) {
  if (!nb::isinstance<nb::type_object>(type) || !nb::hasattr(type, "name") || !nb::hasattr(type, "summary"))
    throw nb::type_error("a normalizer must be a class with a name and a summary");
  NormalizerInfo info;
  info.name = nb::cast<std::string>(type.attr("name"));
  if (const auto known = classes().find(info.name); known != classes().end()) {
    known->second = type;
    return;
  }
  info.inference = nb::hasattr(type, "affine") ? Inference::affine : Inference::online;
  info.summary = nb::cast<std::string>(type.attr("summary"));
  if (nb::hasattr(type, "options"))
    for (const auto& [name, row] : nb::cast<nb::dict>(type.attr("options")))
      info.options.push_back(option(nb::cast<std::string>(name), nb::cast<nb::tuple>(row)));
  foldgrad::register_normalizer({info, make_of_python});  // throws if the name is taken
  classes().emplace(info.name, type);
}

}  // namespace

void add_normalizers_of_python(nb::module_& m) {
  nb::class_<Site>(m, "Site", "The place in a model for which a normalizer is made.")
      .def_ro("name", &Site::name)
      .def_ro("channels", &Site::channels)
      .def_ro("dtype", &Site::dtype)
      .def(
          "option", [](const Site& s, const std::string& name) { return s.options.number(name); }, "name"_a,
          "Returns the chosen value of an option.")
      .def(
          "parameter",
          [](const Site& s, const std::string& name, double value, std::int64_t size) {
            return std::make_shared<Parameter>(s.site().parameter(name, value, size));
          },
          "name"_a, "value"_a, "size"_a = -1,
          "Returns the parameter SITE.name with `size` elements equal to `value`, by default one for each channel.");
  m.def("register_normalizer", register_class, "type"_a, nb::sig("def register_normalizer(type: type) -> None"),
        "Adds a class to normalizers(), so that models, configurations, checks and folding treat it like the library's "
        "own normalizers (docs/python.md). Call this function before you make a model. The class has\n\n"
        "    name, summary                 strings\n"
        "    options                       optional: {name: (default, least, most, help)} for numbers\n"
        "    __init__(self, site)          sets self.parameters, and self.state, {name: Tensor}, if it has buffers\n"
        "    forward(self, x, training)    returns y for the Var x [..., channels]\n"
        "    affine(self)                  optional: returns A and B of y = A x + B at inference; without it, the\n"
        "                                  normalizer is never folded\n\n"
        "A class replaces an earlier class of the same name but keeps the earlier one's options and summary. Throws "
        "ValueError if one of the library's normalizers has the name.");
}

}  // namespace foldgrad::python
