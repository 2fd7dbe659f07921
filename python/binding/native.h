// Calls from Python into the engine. The module is several files; each add_...() binds a part.
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
using Path = std::filesystem::path;  // text, or an os.PathLike

// Calls f without the GIL, so that other threads of Python run, and with signals blocked: Ctrl-C arrives afterwards.
template <class F>
auto native(const F& f) {
  const nb::gil_scoped_release released;
  const BlockedSignals blocked;
  return f();
}

// Also locks the object that f works on; waits for it without the GIL. A callback may call in again from its thread.
template <class F>
auto native(std::recursive_mutex& mutex, const F& f) {
  const nb::gil_scoped_release released;
  const BlockedSignals blocked;
  const std::lock_guard lock(mutex);
  return f();
}

// Locks for a holder of the GIL, which it releases while it waits.
inline std::unique_lock<std::recursive_mutex> locked(std::recursive_mutex& mutex) {
  const nb::gil_scoped_release released;
  return std::unique_lock(mutex);
}

// Something of Python that the engine keeps and may release in any thread.
template <class T>
class Kept {
 public:
  explicit Kept(T value) : value_(std::make_unique<T>(std::move(value))) {}
  ~Kept() {
    if (!nb::is_alive()) {  // the interpreter has ended
      static_cast<void>(value_.release());
      return;
    }
    const nb::gil_scoped_acquire held;
    value_.reset();
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const T& get() const { return *value_; }  // for holders of the GIL

 private:
  std::unique_ptr<T> value_;
};
using KeptObject = Kept<nb::object>;

// Returns a dict of its keyword arguments.
template <class... Items>
nb::dict dict_of(Items&&... items) {
  return nb::cast<nb::dict>(nb::handle(reinterpret_cast<PyObject*>(&PyDict_Type))(std::forward<Items>(items)...));
}
inline nb::object parsed(const std::string& json) { return nb::module_::import_("json").attr("loads")(json); }

// Returns the docstring of a function, class or file from the headers' comments (docstrings.py).
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
