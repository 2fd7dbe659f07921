#include "python/binding/tape.h"

#include <fmt/ranges.h>

#include "models/blocks/random_fill.h"
#include "models/normalizers/normalizer.h"
#include "models/normalizers/parameter_as.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/matmul/matmul.h"
#include "python/binding/arrays.h"

namespace foldgrad::python {
namespace {

template <class F>
TapeVar on_tape(SharedTape& t, const F& add) {
  Var v = native(t.mutex, [&] { return add(t.get()); });
  return {t.shared_from_this(), std::move(v)};
}

template <Var (Tape::*add)(Tensor)>
TapeVar array_on(SharedTape& t, nb::handle array) {
  return on_tape(t, [value = to_tensor(array)](Tape& tape) { return (tape.*add)(value); });
}

TapeVar parameter_on(SharedTape& t, const std::shared_ptr<Parameter>& p, const std::optional<std::string>& dtype) {
  t.kept.push_back(p);
  if (!dtype) return on_tape(t, [&](Tape& tape) { return tape.parameter(*p); });
  const DType to = dtype_named(*dtype);
  return on_tape(t, [&](Tape& tape) { return parameter_as(tape, *p, to); });
}

void run_backward(SharedTape& t, const TapeVar& y, nb::handle dy) {
  Tensor gradient = dy.is_none() ? Tensor() : to_tensor(dy);
  native(t.mutex, [&] { t.get().backward(y.var, std::move(gradient)); });
}

void clear(SharedTape& t) {
  native(t.mutex, [&] { t.get().clear(); });
  t.kept.clear();
}

std::optional<Tensor> grad(SharedTape& t, const TapeVar& v) {
  const Tensor gradient = native(t.mutex, [&] { return t.get().grad(v.var); });
  return gradient.defined() ? std::optional(gradient) : std::nullopt;
}

Dicts nodes(SharedTape& t) {
  return native(t.mutex, [&] {
    const nb::gil_scoped_acquire held;
    Dicts all;
    for (const auto& node : t.get().nodes())
      all.append(dict_of("name"_a = node->name(), "scope"_a = node->scope(), "inputs"_a = node->inputs(),
                         "output"_a = node->output(), "shape"_a = t.get().shape_of(node->output())));
    return all;
  });
}

std::string text_of(SharedTape& t) {
  return native(t.mutex, [&] {
    std::string text = "Tape\n";
    for (const auto& node : t.get().nodes())
      text += fmt::format("  {:>4} = {}({})  {}{}{}\n", node->output(), node->name(), fmt::join(node->inputs(), ", "),
                          t.get().shape_of(node->output()), node->scope().empty() ? "" : "  ", node->scope());
    return text;
  });
}

// A scope that a `with` statement opens.
struct OpenScope {
  std::shared_ptr<SharedTape> tape;
  std::string name;
  std::unique_ptr<Tape::Scope> scope = nullptr;
};

template <Var (*op)(const Var&, const Var&)>
TapeVar of_two(const TapeVar& a, const TapeVar& b) {
  return record(a, [&] { return op(a.var, b.var); });
}

TapeVar plus(const TapeVar& a, double number) {
  return record(a, [&] {
    return add(a.var, a.var.tape().constant(Tensor::full(a.var.shape(), number, a.var.dtype(), a.var.device())));
  });
}

TapeVar times(const TapeVar& a, double number) {
  return record(a, [&] { return scale(a.var, number); });
}

void add_parameter(nb::module_& m) {
  const auto filled = [](auto make) {
    return [make](const std::string& name, const std::vector<std::int64_t>& shape, double size, std::uint64_t seed,
                  DType dtype) {
      return std::make_shared<Parameter>(make(name, Shape(shape), size, seed, dtype, Device::cpu));
    };
  };
  nb::class_<Parameter>(m, "Parameter",
                        "A trainable tensor with a gradient. The gradient outlives the tape: every backward pass adds "
                        "to it, until zero_grad() drops it.")
      .def(nb::new_([](const std::string& name, nb::handle array) {
             return std::make_shared<Parameter>(Parameter{name, native([t = to_tensor(array)] { return t.clone(); })});
           }),
           "name"_a, "array"_a.none(), "Copies the values of the array.")
      .def_ro("name", &Parameter::name)
      .def_prop_rw(
          "value", [](const Parameter& p) { return p.value; },
          [](Parameter& p, nb::handle array) {
            const Tensor value = to_tensor(array);
            native([&] { p.value.copy_from(value); });
          },
          nb::for_setter(nb::sig("def value(self, value: object) -> None")),
          "The tensor. Writing to its .numpy() changes the parameter. Assignment copies the values of an array with "
          "the same shape and dtype.")
      .def_prop_ro(
          "grad", [](const Parameter& p) { return p.has_grad ? std::optional(p.grad) : std::nullopt; },
          "The gradient, or None before the first backward pass and after zero_grad().")
      .def("zero_grad", &Parameter::zero_grad, "Drops the gradient.")
      .def("__repr__", [](const Parameter& p) {
        return fmt::format("Parameter({} {} {})", p.name, name(p.value.dtype()), p.value.shape());
      });
  m.def("uniform", filled(&uniform_parameter), "name"_a, "shape"_a, "bound"_a, "seed"_a, "dtype"_a = DType::f32,
        "Returns a parameter with values drawn uniformly from [-bound, bound].");
  m.def("normal", filled(&normal_parameter), "name"_a, "shape"_a, "deviation"_a, "seed"_a, "dtype"_a = DType::f32,
        "Returns a parameter with normally distributed values.");
}

void add_var(nb::module_& m) {
  nb::class_<TapeVar>(m, "Var", "A value on a tape. It keeps the tape alive.")
      .def_prop_ro("value", [](const TapeVar& v) { return v.var.value(); })
      .def_prop_ro("shape", [](const TapeVar& v) { return v.var.shape(); })
      .def_prop_ro("dtype", [](const TapeVar& v) { return v.var.dtype(); })
      .def_prop_ro(
          "grad", [](const TapeVar& v) { return grad(*v.tape, v); },
          "The gradient of a variable or parameter, or None if no backward pass has added to it.")
      .def_ro("tape", &TapeVar::tape)
      .def("__add__", of_two<add>, nb::is_operator())
      .def("__add__", plus, nb::is_operator())
      .def("__radd__", plus, nb::is_operator())
      .def("__sub__", of_two<sub>, nb::is_operator())
      .def(
          "__sub__", [](const TapeVar& a, double number) { return plus(a, -number); }, nb::is_operator())
      .def("__mul__", of_two<mul>, nb::is_operator())
      .def("__mul__", times, nb::is_operator())
      .def("__rmul__", times, nb::is_operator())
      .def("__neg__", [](const TapeVar& a) { return times(a, -1); })
      .def(
          "__matmul__",
          [](const TapeVar& a, const TapeVar& b) { return record(a, [&] { return matmul(a.var, b.var); }); },
          nb::is_operator())
      .def("__repr__", [](const TapeVar& v) {
        return fmt::format("Var({} {} {})", name(v.var.dtype()), v.var.shape(), name(v.var.device()));
      });
}

}  // namespace

void add_tape(nb::module_& m) {
  add_parameter(m);
  nb::class_<OpenScope>(m, "Scope")
      .def("__enter__", [](OpenScope& s) { s.scope = std::make_unique<Tape::Scope>(s.tape->get(), s.name); })
      .def("__exit__", [](OpenScope& s, const nb::args&) { s.scope.reset(); });
  nb::class_<SharedTape>(m, "Tape", doc("engine/tape.h"))
      .def(nb::new_([](bool recording) { return std::make_shared<SharedTape>(recording); }), "recording"_a = true,
           "If `recording` is false, operations compute their results but record nothing.")
      .def("constant", array_on<&Tape::constant>, "x"_a.none(), "Returns a value that receives no gradient.")
      .def("variable", array_on<&Tape::variable>, "x"_a.none(), "Returns a value that receives a gradient.")
      .def("parameter", parameter_on, "p"_a, "dtype"_a = nb::none(),
           "Returns the parameter as a value on the tape. Backward passes add its gradient to p.grad. Pass `dtype` to "
           "convert the parameter to the dtype of the values that it is used with.")
      .def("backward", run_backward, "y"_a, "dy"_a = nb::none(),
           "Adds dy * d(y)/d(v) to the gradient of every variable and parameter v. If dy is None, y must have one "
           "element, and dy is 1. Throws ValueError if backward() has already run on this recording, if y belongs to "
           "another recording, or if dy does not have the shape and dtype of y.")
      .def("grad", grad, "v"_a,
           "Returns the gradient of a variable or parameter, or None if no backward pass has added to it.")
      .def("clear", clear, "Drops the recording. Its Vars can no longer be used.")
      .def(
          "scope",
          [](SharedTape& t, const std::string& name) {
            return OpenScope{t.shared_from_this(), name};
          },
          "name"_a, "Names a layer in errors and graphs: `with tape.scope(\"encoder\"): ...`. Dots join nested scopes.")
      .def("nodes", nodes,
           "Returns a dict for each recorded operation: its name, its scope, the ids of its operands, and the id and "
           "shape of its result.")
      .def_prop_ro("recording", [](const SharedTape& t) { return t.get().recording(); })
      .def("__repr__", text_of);
  add_var(m);
}

}  // namespace foldgrad::python
