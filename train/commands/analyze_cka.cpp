#include <algorithm>
#include <cmath>

#include "engine/files/atomic_file.h"
#include "ops/linear/stacked.h"
#include "train/analyses/cka.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/model_checks.h"
#include "train/commands/analyze.h"
#include "train/loop/permutation.h"
#include "train/reports/report.h"
#include "train/reports/run_log.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kExamplesPerPass = 32;          // a pass keeps all its activations
constexpr std::uint32_t kExamplesStream = 0x636b6121;  // "cka!"

struct ComparedModel {
  std::string path, name;
  std::unique_ptr<Model> model;
  ExampleSet examples;
  std::vector<std::string> layers = {};
};

using Cka = std::vector<std::vector<double>>;  // [layer of A][layer of B]

std::vector<ComparedModel> models_of(const AnalyzeOptions& o) {
  const bool itself = o.runs[0] == o.runs[1];
  const std::vector<std::string> names =
      itself ? std::vector(2, distinct_names({o.runs[0]})[0]) : distinct_names(o.runs);
  const Device device = require_device(o.device);
  std::vector<ComparedModel> models;
  for (std::size_t i = 0; i < o.runs.size(); ++i) {
    auto model = load_model(o.runs[i], o.dtype, device);
    ExampleSet examples = examples_of(
        *model, located({.split = "valid", .data_directory = o.data_directory, .config = o.config}, o.runs[i]));
    for (std::int64_t e = 0; e < examples.size; ++e)
      if (const std::int64_t length = examples.length ? examples.length(e) : 0; length > examples.longest)
        throw FileError(o.runs[i], fmt::format("validation example {} has {} tokens, its end included, but the model "
                                               "takes at most {}",
                                               e + 1, length, examples.longest));
    models.push_back({o.runs[i], names[i], std::move(model), std::move(examples)});
  }
  return models;
}

// Returns whole batches of the validation examples, always shuffled in the same way, since data may be sorted by class
// or length.
std::vector<std::int64_t> examples_of(const std::vector<ComparedModel>& models, std::int64_t most, std::int64_t batch) {
  FOLDGRAD_CHECK(batch >= kLeastCkaExamples, "--batch must be at least {}: the estimate divides by n - 3, got {}",
                 kLeastCkaExamples, batch);
  FOLDGRAD_CHECK(batch <= most, "--batch must be at most --examples = {}, got {}", most, batch);
  const std::int64_t there = models[0].examples.size;
  FOLDGRAD_CHECK(batch <= there, "--batch must be at most {}, the validation examples of {}, got {}", there,
                 models[0].path, batch);
  std::vector<std::int64_t> examples = permutation(there, {.seed = 1, .stream = kExamplesStream});
  examples.resize(std::size_t(std::min(most, there) / batch * batch));
  const auto digest = [&](const ExampleSet& all) {
    return all.digest ? all.digest(examples) : make_probe(all.inputs(examples), "").digest;
  };
  FOLDGRAD_CHECK(models[1].examples.size == there && digest(models[0].examples) == digest(models[1].examples),
                 "cka compares models on the same examples, but {} and {} are validated on different data",
                 models[0].path, models[1].path);
  return examples;
}

std::vector<Gram> grams_of(ComparedModel& m, const std::vector<std::int64_t>& batch, DType dtype) {
  std::vector<std::vector<Tensor>> parts;
  for (auto from = batch.begin(); from != batch.end();) {
    const auto to = from + std::min(kExamplesPerPass, std::int64_t(batch.end() - from));
    const NamedTensors inputs = m.examples.inputs({from, to});
    const std::int64_t examples = to - from;
    from = to;
    const std::vector<LayerOutput> outputs = layer_outputs(*m.model, inputs, dtype);
    parts.resize(outputs.size());
    m.layers.clear();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& [layer, values] = outputs[i];
      m.layers.push_back(layer);
      parts[i].push_back(m.examples.lengths ? mean_over_rows(values, inputs.at(m.examples.lengths(layer)))
                                            : values.reshape({examples, -1}));
    }
  }
  std::vector<Gram> grams;
  for (std::vector<Tensor>& of_layer : parts) {
    grams.push_back(gram_of(stacked(of_layer)));
    of_layer.clear();
  }
  return grams;
}

std::string shown(double cka) { return std::isnan(cka) ? "-" : fmt::format("{:.4f}", cka); }

// Returns a row for each layer of A, with its CKA to the same layer of B and to the most similar one.
std::string table_of(const ComparedModel& a, const ComparedModel& b, const Cka& cka) {
  Rows rows{{"layer of " + a.name, "number", "CKA", "most like it in " + b.name, "CKA"}};
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const auto same = std::ranges::find(b.layers, a.layers[i]);
    const auto less = [](double x, double y) { return !(x >= y); };  // NaN is the least
    const auto most = std::ranges::max_element(cka[i], less) - cka[i].begin();
    const bool known = !std::isnan(cka[i][most]);
    rows.push_back({a.layers[i], fmt::format("{}", i + 1),
                    same == b.layers.end() ? "-" : shown(cka[i][same - b.layers.begin()]), known ? b.layers[most] : "-",
                    shown(cka[i][most])});
  }
  return aligned(rows);
}

}  // namespace

std::vector<Answer> analyze_cka(const AnalyzeOptions& o) {
  std::vector<ComparedModel> models = models_of(o);
  const std::vector<std::int64_t> examples = examples_of(models, o.examples, o.batch);
  MinibatchCka sums;
  for (std::size_t at = 0; at < examples.size(); at += o.batch) {
    const std::vector<std::int64_t> batch(examples.begin() + at, examples.begin() + at + o.batch);
    const std::vector<Gram> a = grams_of(models[0], batch, o.dtype);
    sums.add(a, grams_of(models[1], batch, o.dtype));
  }
  const Cka cka = sums.values();
  const std::string title = fmt::format("CKA of {} and {}", models[0].name, models[1].name);
  if (!o.picture.empty())
    write_file_atomically(o.picture,
                          heat_map({title, "layer of " + models[1].name, "layer of " + models[0].name, cka}));
  return {{fmt::format("{}: {} examples in batches of {}\n{}", title, examples.size(), o.batch,
                       table_of(models[0], models[1], cka)),
           {{"a", models[0].path},
            {"b", models[1].path},
            {"examples", examples.size()},
            {"batch", o.batch},
            {"layers_a", models[0].layers},
            {"layers_b", models[1].layers},
            {"cka", cka}}}};
}

}  // namespace foldgrad
