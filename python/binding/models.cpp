#include "python/binding/models.h"

#include <nanobind/stl/pair.h>

#include "engine/files/atomic_file.h"
#include "models/fold/graph_dot.h"
#include "models/fold/model.h"
#include "python/binding/arrays.h"
#include "python/binding/normalizers.h"
#include "train/analyses/layer_outputs.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/checks/model_checks.h"
#include "train/runs/directory.h"
#include "train/tasks/families.h"

namespace foldgrad::python {
namespace {

struct SharedFolded {
  std::shared_ptr<SharedModel> model;
  std::string certificate, reports;  // the certificate as JSON, and a summary as text
};

std::shared_ptr<SharedModel> load(const Path& path, DType dtype, Device device) {
  const std::string directory = find_model_directory(path.string());
  return std::make_shared<SharedModel>(load_model(directory, dtype, device), directory);
}

FoldOptions fold_options(const std::string& tied, bool rescale_stream) {
  for (const auto known : values_of(FoldOptions::Tied()))
    if (tied == name(known)) return {known, rescale_stream};
  throw std::invalid_argument(fmt::format("tied must be refuse, untie or keep, got \"{}\"", tied));
}

std::shared_ptr<SharedFolded> fold_model(SharedModel& m, const std::string& tied, bool rescale_stream) {
  const FoldOptions options = fold_options(tied, rescale_stream);
  return native(m.mutex, [&] {
    FoldedModel folded = fold(*m.model, options);
    const nlohmann::ordered_json proof = certificate(*m.model, folded, options, random_probe(*m.model));
    auto model = std::make_shared<SharedModel>(std::shared_ptr<Model>(std::move(folded.model)), m.directory);
    return std::make_shared<SharedFolded>(SharedFolded{std::move(model), proof.dump(2), summary(proof)});
  });
}

bool is_target(const std::string& name) { return name.starts_with("target"); }

// Returns the inputs. Throws unless their names are those of the model's inputs.
NamedTensors inputs_of(SharedModel& m, const Dict& given) {
  NamedTensors inputs = to_tensors(given), known = m.model->smallest_inputs();
  std::string names;
  for (const auto& [name, t] : known)
    if (!is_target(name)) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, t] : known)
    FOLDGRAD_CHECK(is_target(name) || inputs.count(name), "the inputs must be {}, but {} is missing", names, name);
  for (const auto& [name, t] : inputs) FOLDGRAD_CHECK(known.count(name), "the inputs must be {}, got {}", names, name);
  return inputs;
}

NamedTensors run(SharedModel& m, const Dict& given) {
  return native(m.mutex, [&, inputs = inputs_of(m, given)] {
    Tape tape(/*recording=*/false);
    return NamedTensors{{"logits", m.model->forward(inputs, {.tape = tape, .dtype = m.model->dtype()}).value()}};
  });
}

nb::typed<nb::dict, nb::str, Tensor> layer_outputs(SharedModel& m, const Dict& given) {
  const NamedTensors inputs = inputs_of(m, given);
  nb::typed<nb::dict, nb::str, Tensor> all;
  for (const auto& [layer, values] :
       native(m.mutex, [&] { return foldgrad::layer_outputs(*m.model, inputs, m.model->dtype()); }))
    all[layer.c_str()] = nb::cast(values);
  return all;
}

// Returns the validation examples of the run that this model belongs to.
ExampleSet examples(SharedModel& m, const std::string& run, const std::string& data_directory) {
  const RunDirectory directory(run);
  return examples_of(*m.model, {.split = "valid",
                                .data_directory = data_directory.empty() ? directory.data_root() : data_directory,
                                .config = directory.config(),
                                .model = run,
                                .directory = m.directory});
}

std::vector<std::map<std::string, std::string>> verify(SharedModel& m, const std::string& tied, bool rescale_stream,
                                                       std::uint64_t seed) {
  const FoldOptions options = fold_options(tied, rescale_stream);
  const auto results = native(m.mutex, [&] {
    return check_model(
        *m.model, [&](Model& model) { return fold(model, options); }, random_probe(*m.model, seed),
        family_of(*m.model).task->checks);
  });
  std::vector<std::map<std::string, std::string>> all;
  for (const CheckResult& result : results)
    all.push_back({{"check", result.name}, {"outcome", name(result.outcome)}, {"measured", result.measured}});
  return all;
}

std::string graph(SharedModel& m) {
  return native(m.mutex, [&] {
    std::map<std::string, std::string> names;
    for (const Normalizer* norm : m.model->normalizers()) names[norm->site()] = norm->info().name;
    return graph_dot({{m.model->family(), graph_of(*m.model), names}});
  });
}

void save(SharedModel& m, const Path& directory) {
  native(m.mutex, [&] { write_model_directory(directory.string(), *m.model, m.directory + "/vocabulary"); });
}

void save_folded(SharedFolded& f, const Path& directory) {
  save(*f.model, directory);
  native([&] { write_file_atomically(directory.string() + "/certificate.json", f.certificate + "\n"); });
}

void add_examples(nb::module_& m) {
  nb::class_<ExampleSet>(m, "Examples", "The examples on which models are compared.")
      .def_ro("size", &ExampleSet::size)
      .def(
          "inputs",
          [](const ExampleSet& s, const std::vector<std::int64_t>& numbers) {
            for (const std::int64_t i : numbers)
              FOLDGRAD_CHECK(i >= 0 && i < s.size, "example numbers must be in [0, {}), got {}", s.size, i);
            return s.inputs(numbers);
          },
          "numbers"_a, Native(), "Returns the model's inputs for these examples.")
      .def(
          "digest",
          [](const ExampleSet& s, const std::vector<std::int64_t>& numbers) {
            return s.digest ? s.digest(numbers) : make_probe(s.inputs(numbers), "").digest;
          },
          "numbers"_a, Native(), "Returns the SHA-256 of these examples.")
      .def(
          "lengths", [](const ExampleSet& s, const std::string& layer) { return s.lengths ? s.lengths(layer) : ""; },
          "layer"_a,
          "Returns the name of the input that holds the number of rows of each example in a layer, or \"\" if all "
          "examples have the same number.");
}

void add_parts(ModelClass& model) {
  model.def_prop_ro("family", [](const SharedModel& s) { return s.model->family(); })
      .def_prop_ro("dtype", [](const SharedModel& s) { return s.model->dtype(); })
      .def_prop_ro(
          "inputs",
          [](const SharedModel& s) {
            std::map<std::string, std::pair<DType, Shape>> shapes;
            for (const auto& [name, t] : s.model->smallest_inputs())
              if (!is_target(name)) shapes[name] = {t.dtype(), t.shape()};
            return shapes;
          },
          "The names of the inputs, with the dtypes and shapes of the smallest valid inputs.")
      .def_prop_ro("parameters", [](const SharedModel& s) { return shared(s.model->parameters(), s.model); })
      .def_prop_ro("normalizers", [](const SharedModel& s) {
        std::vector<std::shared_ptr<SharedNormalizer>> all;
        for (Normalizer* norm : s.model->normalizers())
          all.push_back(std::make_shared<SharedNormalizer>(std::shared_ptr<Normalizer>(s.model, norm)));
        return all;
      });
}

void add_methods(ModelClass& model) {
  model
      .def("run", run, "inputs"_a,
           "Runs inference on a batch and returns {\"logits\": [rows, classes]}. If NAME_lengths "
           "[examples] is an input, the input NAME holds the rows of all examples, one after another.")
      .def(
          "random_inputs", [](const SharedModel& s, std::uint64_t seed) { return s.model->random_inputs(seed); },
          "seed"_a = 1, "Returns random inputs, including \"target\". Equal seeds give equal inputs.")
      .def("layer_outputs", layer_outputs, "inputs"_a,
           "Returns the outputs of the normalizers, and of the attention and feed-forward blocks before their residual "
           "sums.")
      .def("examples", examples, "run"_a, "data_directory"_a = "", Native(),
           "Returns the validation examples of a run of this model.")
      .def("fold", fold_model, "tied"_a = "refuse", "rescale_stream"_a = false,
           "Merges normalizers into linear layers where possible. `tied` (refuse, untie or keep) says what to do with "
           "weights that another operation also reads (docs/folding.md).")
      .def("verify", verify, "tied"_a = "refuse", "rescale_stream"_a = false, "seed"_a = 1,
           "Runs the checks of `foldgrad verify`. Returns the name, outcome and measured value of each check. The "
           "model must be f32.")
      .def("save", save, "directory"_a,
           "Writes a model directory. Throws FileError if it cannot be written or already contains a model.")
      .def(
          "export_onnx",
          [](SharedModel& s, const Path& directory) {
            return native(s.mutex, [&] { return s.model->write_onnx(directory.string()); });
          },
          "directory"_a, "Writes the model as ONNX and returns the names of the files (docs/onnx.md).")
      .def("graph", graph, "Returns the graph of the forward pass in Graphviz's DOT language.");
}

}  // namespace

void add_models(nb::module_& m) {
  ModelClass model(m, "Model", doc("models/model.h"));
  add_parts(model);
  add_methods(model);
  add_tasks(model);
  add_examples(m);
  nb::class_<SharedFolded>(m, "Folded", "A folded model and its certificate.")
      .def_ro("model", &SharedFolded::model)
      .def_ro("reports", &SharedFolded::reports,
              "A summary as text: the folds and refusals at each site, and the largest differences.")
      .def_prop_ro(
          "certificate", [](const SharedFolded& f) { return parsed(f.certificate); },
          "The folds at each site, and the difference from the trained model (docs/folding.md).")
      .def("save", save_folded, "directory"_a, "Writes a model directory with certificate.json.");
  m.def("load", load, "path"_a, "dtype"_a = DType::f32, "device"_a = Device::cpu, Native(),
        "Loads a model directory, or a run's best checkpoint, or its newest one if there is no best. Throws "
        "CheckpointError if the model is missing or invalid.");
}

}  // namespace foldgrad::python
