#include <nanobind/stl/string_view.h>

#include <cerrno>

#include "engine/cpu/threads.h"
#include "engine/files/file.h"
#include "engine/memory.h"
#include "engine/parallel/communicator.h"
#include "foldgrad_version.h"
#include "python/binding/arrays.h"
#include "python/binding/docstrings.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/runs/directory.h"

namespace foldgrad::python {

const char* doc(const char* name) {
  for (const auto& [known, text] : kDocstrings)
    if (std::string_view(known) == name) return text;
  throw std::logic_error(std::string("python/binding/docstrings.py found no comment for ") + name);
}

// Binds the exceptions, which have the engine's messages.
void add_errors(nb::module_& m) {
  static const nb::object file_error = nb::exception<FileError>(m, "FileError", PyExc_OSError);
  file_error.doc() = "A file that cannot be read or written, or has invalid contents.";
  const nb::tuple both = nb::make_tuple(file_error, nb::handle(PyExc_FileNotFoundError));
  static const nb::object missing_file = nb::steal(
      PyErr_NewExceptionWithDoc("foldgrad._core.MissingFile", "A file that does not exist.", both.ptr(), nullptr));
  m.attr("MissingFile") = missing_file;
  nb::exception<ConfigError>(m, "ConfigError", PyExc_ValueError).doc() = "A configuration that cannot be used.";
  nb::exception<CheckpointError>(m, "CheckpointError", PyExc_ValueError).doc() =
      "A model or checkpoint that cannot be used.";
  nb::exception<NonFiniteError>(m, "NonFiniteError", PyExc_ArithmeticError).doc() = "A number that is not finite.";
  nb::exception<Diverged>(m, "Diverged", PyExc_ArithmeticError).doc() = "Training that cannot continue.";
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const FileError& e) {
      if (e.error() == 0) throw;  // nanobind raises FileError with only the text
      const nb::object& error = e.error() == ENOENT ? missing_file : file_error;
      PyErr_SetObject(error.ptr(), nb::make_tuple(e.error(), e.what(), e.path()).ptr());
    } catch (const OutOfMemory& e) {
      PyErr_SetString(PyExc_MemoryError, e.what());
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError, "an argument, or a part of it, has the wrong type");
    }
  });
}

}  // namespace foldgrad::python

NB_MODULE(_core, m) {
  using namespace foldgrad;
  nanobind::set_leak_warnings(false);  // tensors may live until the interpreter exits
  m.attr("__version__") = FOLDGRAD_VERSION;
  python::add_errors(m);
  python::add_tensors(m);
  python::add_tape(m);
  nanobind::module_ ops = m.def_submodule("ops", "Every operation of docs/ops.md.");
  python::add_ops(ops);
  python::add_functions(m);
  python::add_optimizers(m);
  python::add_normalizers(m);
  python::add_normalizers_of_python(m);
  python::add_models(m);
  python::add_files(m);
  python::add_training(m, {FOLDGRAD_VERSION, FOLDGRAD_COMMIT, FOLDGRAD_COMPILER, FOLDGRAD_FLAGS});
  m.def(
      "memory_in_use", [](Device device) { return memory::statistics(device).current; },
      nanobind::arg("device") = Device::cpu, "Returns the number of bytes that all tensors on a device use.");
  m.def("threads", threads, "Returns the number of threads that the calling thread's next operation will use.");
  m.def("set_threads", set_threads, nanobind::arg("n"), "Sets the number of threads for the calling thread.");
}
