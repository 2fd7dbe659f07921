// Calls from Python into the engine. Each function add_...() binds one part of the module.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/cpu/blocked_signals.h"

namespace foldgrad {
struct BuildInfo;
}

namespace foldgrad::python {

namespace nb = nanobind;
using namespace nb::literals;
using Path = nb::typed<std::filesystem::path, nb::str>;  // a str or an os.PathLike
using Any = nb::typed<nb::object, nb::any>;
using Dict = nb::typed<nb::dict, nb::str, nb::any>;
using Dicts = nb::typed<nb::list, Dict>;

// While an object of this type lives, other Python threads may run. Signals are blocked, so Ctrl-C takes effect later.
struct WithoutPython {
  nb::gil_scoped_release released;
  BlockedSignals blocked;
};
// A guard for functions that use no Python objects. Arguments and results are converted outside of the guard.
using Native = nb::call_guard<WithoutPython>;

// Calls f without the GIL.
template <class F>
auto native(const F& f) {
  const WithoutPython released;
  return f();
}

// Calls f without the GIL, and locks the mutex of the object that f works on. Also waits for the mutex without the GIL.
// A callback of f may use the object again on the same thread.
template <class F>
auto native(std::recursive_mutex& mutex, const F& f) {
  const WithoutPython released;
  const std::lock_guard lock(mutex);
  return f();
}

// Wraps a Python object that the engine keeps and may release in any thread. Only holders of the GIL may use the
// object.
template <class T>
std::shared_ptr<T> kept(T value) {
  return {new T(std::move(value)), [](T* released) {
            if (!nb::is_alive()) return;  // the interpreter has ended
            const nb::gil_scoped_acquire held;
            delete released;
          }};
}

// Returns a dict of the given keyword arguments.
template <class... Items>
nb::dict dict_of(Items&&... items) {
  return nb::cast<nb::dict>(nb::handle(reinterpret_cast<PyObject*>(&PyDict_Type))(std::forward<Items>(items)...));
}
inline Dict parsed(const std::string& json) { return nb::cast<Dict>(nb::module_::import_("json").attr("loads")(json)); }

// Returns the docstring that docstrings.py made for an operation or a header.
const char* doc(const char* name);

void add_errors(nb::module_& m);
void add_tensors(nb::module_& m);
void add_tape(nb::module_& m);
void add_functions(nb::module_& m);
void add_ops(nb::module_& m);
void add_optimizers(nb::module_& m);
void add_normalizers(nb::module_& m);
void add_normalizers_of_python(nb::module_& m);
void add_models(nb::module_& m);
void add_files(nb::module_& m);
void add_training(nb::module_& m, const BuildInfo& build);

}  // namespace foldgrad::python
