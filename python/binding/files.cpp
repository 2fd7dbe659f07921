// Binds safetensors files and the replay of traces.
#include <nanobind/stl/pair.h>

#include "engine/files/safetensors.h"
#include "python/binding/arrays.h"
#include "train/checks/trace.h"

namespace foldgrad::python {
namespace {

Dict trace_report(const Path& path, DType dtype, double tolerance) {
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
        const SafetensorsFile file = read_safetensors(path.string());
        return std::pair(file.tensors, file.metadata);
      },
      "path"_a, Native(),
      "Returns the tensors and the metadata of a safetensors file. Throws FileError if the file cannot be read or "
      "violates the format.");
  m.def(
      "write_safetensors",
      [](const Path& path, const Dict& tensors) {
        const NamedTensors given = to_tensors(tensors);
        native([&] { write_safetensors(path.string(), given); });
      },
      "path"_a, "tensors"_a, "Writes tensors to a safetensors file. An existing file is replaced atomically.");
  m.def("replay_trace", trace_report, "path"_a, "dtype"_a = DType::f64, "tolerance"_a = 1e-5,
        "Runs the inputs in a trace through the normalizer, and compares the results with the recorded ones. Returns a "
        "dict with the layer, the number of steps, and the largest differences, over all arrays and for each array.");
}

}  // namespace foldgrad::python
