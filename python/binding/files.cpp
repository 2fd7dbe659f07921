// Files of tensors, and traces.
#include "engine/files/safetensors.h"
#include "python/binding/arrays.h"
#include "train/checks/trace.h"

namespace foldgrad::python {
namespace {

nb::dict trace_report(const Path& path, DType dtype, double tolerance) {
  const TraceReport report = native([&] { return replay_trace(path.string(), dtype, Device::cpu, tolerance); });
  nb::dict differences;
  for (const TraceDifference& d : report.differences) differences[d.array.c_str()] = d.largest;
  return dict_of("layer"_a = report.layer, "steps"_a = report.steps, "largest"_a = report.largest(),
                 "differences"_a = differences);
}

}  // namespace

void add_files(nb::module_& m) {
  m.def(
      "read_safetensors",
      [](const Path& path) {
        const SafetensorsFile file = native([&] { return read_safetensors(path.string()); });
        return nb::make_tuple(file.tensors, file.metadata);
      },
      "path"_a,
      nb::sig("def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]"),
      "Returns the tensors and the metadata of a file. Throws FileError for a file that is not strictly as the format "
      "says.");
  m.def(
      "write_safetensors",
      [](const Path& path, const nb::dict& tensors) {
        const NamedTensors given = to_tensors(tensors);
        native([&] { write_safetensors(path.string(), given); });
      },
      "path"_a, "tensors"_a, "Replaces the file atomically.");
  m.def("replay_trace", trace_report, "path"_a, "dtype"_a = DType::f64, "tolerance"_a = 1e-5,
        nb::sig("def replay_trace(path: str | os.PathLike[str], dtype: str = 'f64', tolerance: float = 1e-05) -> "
                "dict[str, typing.Any]"),
        "Runs the recorded inputs of a trace through the normalizer and returns the largest differences by array.");
}

}  // namespace foldgrad::python
