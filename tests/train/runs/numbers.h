// Collects the results of a `foldgrad train` run that its configuration determines, such as losses and weights. Each
// result has a name, and is text that can be compared with another run's.
#pragma once
#include "engine/files/safetensors.h"
#include "tests/train/tiny_run.h"

namespace foldgrad::testing {

// Results in the order in which a run computes them. If one of them differs between two runs, so do all later ones.
const std::vector<std::string> kConsequences = {"outcome",     "vocabulary",     "work 1",          "shapes",
                                                "loss 1",      "gradient 1",     "moments 1",       "weights 1",
                                                "weights end", "statistics end", "validation loss", "samples"};
// Results that may differ while all others are the same.
const std::vector<std::string> kCadences = {"lr", "log", "validations", "checkpoints", "test scores", "recordings"};

using RunNumbers = std::map<std::string, std::string>;

// Returns the elements of all tensors whose names begin with `prefix`.
inline std::string numbers_of(const SafetensorsFile& file, const std::string& prefix) {
  std::string all;
  for (const auto& [name, tensor] : file.tensors)
    if (name.rfind(prefix, 0) == 0)
      for (const float v : tensor.to(DType::f32).values<float>()) all += fmt::format("{} ", v);
  return all;
}

// Returns all results of a run. Results of update 1 are included if the run logged and saved this update.
inline RunNumbers numbers_of_run(const std::string& run) {
  namespace fs = std::filesystem;
  RunNumbers n{{"outcome", "finished"}};
  for (const auto& event : events_of(run, "train")) {
    n["log"] += event.at("step").dump() + " ";
    n["lr"] += event.at("lr").dump() + " ";
    if (event.at("step") != 1) continue;
    for (const auto& [key, value] : event.items())
      if (key.ends_with("_per_second"))
        n["work 1"] = fmt::format("{:.0f}", value.get<double>() * event.at("seconds").get<double>());
    n["loss 1"] = event.at("loss").dump();
    n["gradient 1"] = event.at("gradient_norm").dump();
  }
  for (const auto& event : events_of(run, "validate")) {
    n["validations"] += event.at("step").dump() + " ";
    n["validation loss"] = event.at("loss").dump();
  }
  std::vector<std::string> steps;
  for (const auto& directory : fs::directory_iterator(run + "/checkpoints"))
    if (fs::is_directory(directory)) steps.push_back(directory.path().filename());
  std::sort(steps.begin(), steps.end());
  for (const std::string& step : steps) n["checkpoints"] += step + " ";
  for (const char* phase : {"begin", "end"})
    if (const std::string path = fmt::format("{}/statistics/{}.safetensors", run, phase); fs::exists(path))
      n["recordings"] += numbers_of(read_safetensors(path), "");
  const std::string first = run + "/checkpoints/step-00000001";
  if (fs::exists(first)) {
    const SafetensorsFile model = read_safetensors(first + "/model.safetensors"),
                          optimizer = read_safetensors(first + "/optimizer.safetensors");
    for (const auto& [name, tensor] : model.tensors) n["shapes"] += fmt::format("{} {}\n", name, tensor.shape());
    n["moments 1"] = numbers_of(optimizer, "exp_avg") + numbers_of(optimizer, "momentum");
    n["weights 1"] = numbers_of(model, "");
  }
  if (!steps.empty()) {
    const std::string vocabulary = run + "/checkpoints/" + steps.back() + "/vocabulary";
    if (fs::exists(vocabulary))
      for (const auto& file : fs::directory_iterator(vocabulary))
        n["vocabulary"] += file.path().filename().string() + "\n" + read_bytes(file.path()) + "\n";
    n["weights end"] = numbers_of(read_safetensors(run + "/checkpoints/" + steps.back() + "/model.safetensors"), "");
    n["statistics end"] =
        numbers_of(read_safetensors(run + "/checkpoints/" + steps.back() + "/norm_state.safetensors"), "");
    const std::string samples = run + "/samples/" + steps.back() + ".txt";
    if (fs::exists(samples)) n["samples"] = read_bytes(samples);  // if the run validated after its last update
  }
  return n;
}

// Returns the names of differing results: the first of kConsequences that differs, and all of kCadences that differ. A
// result of kConsequences does not count if one of the runs lacks it.
inline std::vector<std::string> differences(RunNumbers a, RunNumbers b) {
  if (a["outcome"] != b["outcome"]) return {"outcome"};
  std::vector<std::string> found;
  for (const std::string& name : kConsequences)
    if (a.count(name) && b.count(name) && a[name] != b[name]) {
      found.push_back(name);
      break;
    }
  for (const std::string& name : kCadences)
    if (a[name] != b[name]) found.push_back(name);
  return found;
}

}  // namespace foldgrad::testing
