// Tapes and values that Python owns.
#pragma once
#include <tuple>

#include "engine/tape.h"
#include "python/binding/casters.h"

namespace foldgrad::python {

using SharedParameters = std::vector<std::shared_ptr<Parameter>>;
inline std::vector<Parameter*> pointers(const SharedParameters& parameters) {
  std::vector<Parameter*> all;
  for (const auto& p : parameters) all.push_back(p.get());
  return all;
}

// Returns parameters that keep `owner` alive.
inline SharedParameters shared(const std::vector<Parameter*>& parameters, const std::shared_ptr<void>& owner) {
  SharedParameters all;
  for (Parameter* p : parameters) all.emplace_back(owner, p);
  return all;
}

// A tape with its lock. `tape` is null once the forward pass that owned it has returned.
struct SharedTape : std::enable_shared_from_this<SharedTape> {
  explicit SharedTape(bool recording) : tape(std::make_shared<Tape>(recording)) {}
  explicit SharedTape(Tape& of_a_forward_pass) : tape(std::shared_ptr<void>(), &of_a_forward_pass) {}

  Tape& get() const {
    FOLDGRAD_CHECK(tape, "tape: this value belongs to a forward pass that has already returned");
    return *tape;
  }

  std::vector<std::shared_ptr<void>> kept = {};  // parameters and normalizers that the current recording uses
  std::shared_ptr<Tape> tape;
  std::recursive_mutex mutex;
};

// A value that keeps its tape alive.
struct TapeVar {
  std::shared_ptr<SharedTape> tape;
  Var var;
};

// Runs an operation on x's tape.
template <class F>
TapeVar record(const TapeVar& x, const F& f) {
  Var y = native(x.tape->mutex, [&] {
    (void)x.tape->get();
    return f();
  });
  return {x.tape, std::move(y)};
}

// Maps the parameter types of engine functions to those of Python functions: Var becomes TapeVar.
template <class P>
struct Given {
  using Type = std::remove_cvref_t<P>;
  static const Type& of(const Type& given) { return given; }
};
template <>
struct Given<const Var&> {
  using Type = TapeVar;
  static const Var& of(const TapeVar& given) { return given.var; }
};
using OptionalVar = std::optional<Var>;
template <>
struct Given<const OptionalVar&> {
  using Type = std::optional<TapeVar>;
  static OptionalVar of(const Type& given) { return given ? OptionalVar(given->var) : std::nullopt; }
};

// Binds an operation, with its docstring, and with the names and defaults of its parameters.
template <class... P, class... Names>
void def_op(nb::module_& m, const char* name, const std::tuple<Names...>& names, Var (*f)(const Var&, P...)) {
  const auto call = [f](const TapeVar& x, const typename Given<P>::Type&... rest) {
    return record(x, [&] { return f(x.var, Given<P>::of(rest)...); });
  };
  std::apply([&](const auto&... all) { m.def(name, call, all..., doc(name)); }, names);
}

}  // namespace foldgrad::python
