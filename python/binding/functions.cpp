// Binds operations that are written in Python.
#include "engine/graph/description.h"
#include "engine/node_grads.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"

namespace foldgrad::python {
namespace {

// The base class of operations in Python.
struct Function {};

nb::object read_only(const Tensor& t) {
  const nb::object array = to_numpy(t);
  array.attr("setflags")("write"_a = false);
  return array;
}

struct FunctionNode {
  std::shared_ptr<nb::object> function, saved;
  std::string called;
  std::size_t operands;

  const char* name() const { return called.c_str(); }
  void describe(Description&) const {}
  void backward(NodeGrads& grads) {
    std::vector<Tensor> gradients;
    {
      const nb::gil_scoped_acquire held;
      const nb::object given = function->attr("backward")(*saved, read_only(grads.dy()));
      const nb::object all = operands == 1 && !nb::isinstance<nb::tuple>(given) ? nb::make_tuple(given) : given;
      FOLDGRAD_CHECK(nb::len(all) == operands, "{}: backward must return {} gradients, one for each operand, got {}",
                     called, operands, nb::len(all));
      for (std::size_t k = 0; k < operands; ++k) gradients.push_back(all[k].is_none() ? Tensor() : to_tensor(all[k]));
    }
    for (int k = 0; k < int(operands); ++k) {
      if (!grads.wanted(k)) continue;
      const Tensor& gradient = gradients[std::size_t(k)];
      FOLDGRAD_CHECK(gradient.defined(), "{}: backward must return the gradient of operand {}, got None", called, k);
      const auto [place, mode] = grads.place(k, grads.dy().dtype());
      accumulate(place, gradient, mode);
    }
  }
};

// Calls forward() with the operands' arrays and records its result.
TapeVar call(nb::handle self, const nb::args& operands) {
  const std::string called = nb::cast<std::string>(self.type().attr("__name__"));
  std::vector<Var> vars;
  nb::list arrays;
  TapeVar first;
  for (const nb::handle operand : operands) {
    TapeVar v;
    if (!nb::try_cast(operand, v)) throw nb::type_error((called + ": operands must be Vars").c_str());
    if (vars.empty()) first = v;
    vars.push_back(v.var);
    arrays.append(read_only(v.var.value()));
  }
  if (vars.empty()) throw nb::type_error((called + ": there must be at least one operand").c_str());
  const nb::object result = self.attr("forward")(*arrays);
  if (!nb::isinstance<nb::tuple>(result) || nb::len(result) != 2)
    throw nb::type_error((called + ": forward must return a pair: y, and the values that backward needs").c_str());
  const Tensor y = to_tensor(result[0]);
  FunctionNode node{kept(nb::borrow(self)), kept(nb::object(result[1])), called, vars.size()};
  return record(first, [&] { return first.var.tape().record(y, vars, std::move(node)); });
}

}  // namespace

void add_functions(nb::module_& m) {
  nb::class_<Function>(m, "Function",
                       "An operation written in NumPy. Derive from it, define\n\n"
                       "    def forward(self, *arrays): return y, saved\n"
                       "    def backward(self, saved, dy): return gradients, one for each operand\n\n"
                       "and call an instance with Vars. The arrays are read-only. The call records a node on the tape. "
                       "Folding treats the operation as nonlinear.")
      .def(nb::init<>())
      .def("__call__", call, nb::sig("def __call__(self, *operands: Var) -> Var"));
}

}  // namespace foldgrad::python
