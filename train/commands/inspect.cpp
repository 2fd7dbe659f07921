// foldgrad inspect: shows the contents of a model, a checkpoint, a run or a file of tensors.
#include <filesystem>
#include <set>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/fold/model.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/reports/report.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// If several tensors share memory, counts their elements only once.
ordered_json describe_file(const std::string& path) {
  const SafetensorsFile file = read_safetensors(path);
  ordered_json list = ordered_json::array();
  std::int64_t elements = 0;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : file.tensors) {
    list.push_back({{"name", name}, {"dtype", foldgrad::name(tensor.dtype())}, {"shape", tensor.shape().sizes()}});
    if (const std::string bad = first_non_finite(tensor); !bad.empty()) list.back()["not_finite"] = bad;
    if (seen.insert(tensor.raw()).second) elements += tensor.size();
  }
  return {{"path", path},         {"bytes", InputFile(path).size()}, {"tensors", file.tensors.size()},
          {"elements", elements}, {"metadata", file.metadata},       {"list", std::move(list)}};
}

ordered_json describe_normalizers(const Model& model) {
  ordered_json sites = ordered_json::array();
  for (const Normalizer* norm : model.normalizers()) {
    const NormDiagnostics d = norm->diagnostics();
    ordered_json site{{"site", norm->site()}, {"name", norm->info().name}, {"offline", norm->info().offline()}};
    if (!norm->state().empty()) site["iterations"] = d.iterations, site["skips"] = d.skips;
    if (d.least_variance) site["least_variance"] = *d.least_variance, site["greatest_variance"] = *d.greatest_variance;
    if (d.clamped) site["clamped"] = *d.clamped;
    sites.push_back(std::move(site));
  }
  return sites;
}

// Returns the layers in the order of the forward pass, recorded on the smallest inputs. FLOPs are counted per row of
// the result, and only for products with weights, since attention's other products depend on the length. A parameter is
// counted in the layer that uses it first.
ordered_json describe_layers(Model& model) {
  const Graph graph = graph_of(model);
  ordered_json layers = ordered_json::array();
  std::set<std::string> seen;
  for (const GraphNode& node : graph.nodes) {
    if (layers.empty() || layers.back()["layer"] != node.scope)
      layers.push_back({{"layer", node.scope}, {"result", {}}, {"parameters", 0}, {"flop_per_row", 0}});
    ordered_json& layer = layers.back();
    layer["result"] = graph.values[std::size_t(node.result)].shape.sizes();
    for (const int operand : node.operands) {
      const GraphValue& value = graph.values[std::size_t(operand)];
      if (!value.parameter.empty() && seen.insert(value.parameter).second)
        layer["parameters"].get_ref<std::int64_t&>() += value.shape.elements();
    }
    if (const int weight = node.description.weight; weight >= 0)
      layer["flop_per_row"].get_ref<std::int64_t&>() += 2 * graph.values[node.operands[weight]].shape.elements();
  }
  return layers;
}

ordered_json describe_model(const std::string& path, bool layers) {
  const std::string directory = find_model_directory(path);
  const auto model = load_model(directory, DType::f32, Device::cpu, NonFinite::allow);
  std::int64_t state = 0;
  for (const auto& [name, tensor] : model->state()) state += std::int64_t(tensor.bytes());
  ordered_json all{{"path", directory}};
  if (const std::int64_t step = checkpoint_files::step_of(std::filesystem::path(directory).filename()); step >= 0)
    all["step"] = step;
  if (const auto bad = non_finite_tensors(*model); !bad.empty()) all["not_finite"] = bad;
  all["parameters"] = model->parameter_count();
  all["normalizer_state_bytes"] = state;
  const ordered_json config = model_json(*model);
  all["model"] = config["model"];
  all["norm"] = config["norm"];
  all["vocabulary"] = nullptr;
  if (const auto vocabulary = family_of(*model).task->vocabulary) all["vocabulary"] = vocabulary(*model, directory);
  all["normalizers"] = describe_normalizers(*model);
  if (layers) all["layers"] = describe_layers(*model);
  return all;
}

ordered_json describe_checkpoints(const std::string& checkpoints) {
  const auto pointer = [&](const char* name) -> ordered_json {
    const std::int64_t step = checkpoint_files::step_of(checkpoint_files::read_pointer(checkpoints + name));
    return step < 0 ? ordered_json() : ordered_json(step);
  };
  return {
      {"steps", checkpoint_files::steps_in(checkpoints)}, {"latest", pointer("/LATEST")}, {"best", pointer("/BEST")}};
}

std::string text_of_file(const ordered_json& file) {
  std::string text;
  for (const ordered_json& t : file["list"])
    text += fmt::format("{:<5} {:<20} {}{}\n", text_of(t["dtype"]), text_of(t["shape"]), text_of(t["name"]),
                        t.contains("not_finite") ? ": " + text_of(t["not_finite"]) : "");
  for (const auto& [key, value] : file["metadata"].items())
    text += fmt::format("metadata {} = {}\n", key, text_of(value));
  return text + fmt::format("{} tensors, {} elements, {} bytes\n", text_of(file["tensors"]), text_of(file["elements"]),
                            text_of(file["bytes"]));
}

std::string text_of_layers(const ordered_json& layers) {
  Rows rows{{"layer", "result", "parameters", "FLOP per row"}};
  std::int64_t parameters = 0, flop = 0;
  for (const ordered_json& layer : layers) {
    rows.push_back({text_of(layer["layer"]), text_of(layer["result"]), text_of(layer["parameters"]),
                    text_of(layer["flop_per_row"])});
    parameters += layer["parameters"].get<std::int64_t>(), flop += layer["flop_per_row"].get<std::int64_t>();
  }
  rows.push_back({"all", "", std::to_string(parameters), std::to_string(flop)});
  return "\n" + aligned(rows);
}

std::string text_of_model(const ordered_json& all) {
  std::string text;
  for (const auto& [key, value] : all.items()) {
    if (key == "normalizers" || key == "layers") continue;
    text += value.is_object() ? key + "\n" : fmt::format("{:<24} {}\n", key, text_of(value));
    if (value.is_object())
      for (const auto& [name, entry] : value.items()) text += fmt::format("  {:<22} {}\n", name, text_of(entry));
  }
  text += "normalizers\n";
  for (const ordered_json& site : all["normalizers"]) {
    text += fmt::format("  {:<48} {:<10}", text_of(site["site"]), text_of(site["name"]));
    for (const char* key : {"iterations", "skips"})
      if (site.contains(key)) text += fmt::format("  {} {}", key, text_of(site[key]));
    if (site.contains("least_variance"))
      text += fmt::format("  variance {:.4g} ... {:.4g}", site["least_variance"].get<double>(),
                          site["greatest_variance"].get<double>());
    text += "\n";
  }
  return text + (all.contains("layers") ? text_of_layers(all["layers"]) : "");
}

Answer inspect(const std::string& path, bool layers) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(path, ignored);
  ordered_json all = directory ? describe_model(path, layers) : describe_file(path);
  for (const std::string& checkpoints : {path + "/checkpoints", path})
    if (directory && !all.contains("checkpoints") && !checkpoint_files::steps_in(checkpoints).empty())
      all["checkpoints"] = describe_checkpoints(checkpoints);
  return {directory ? text_of_model(all) : text_of_file(all), all};
}

}  // namespace

Action add_inspect(CLI::App& command) {
  struct Options {
    std::string path;
    bool layers = false;
  };
  const auto o = std::make_shared<Options>();
  command.add_option("PATH", o->path, "Model directory, checkpoint, run or safetensors file")->required();
  command.add_flag("--layers", o->layers,
                   "For a model, also print a table of its layers with shapes, parameters and FLOPs");
  add_json_option(command);
  command.footer("Exit codes: 0 success, 2 usage error, 3 the file cannot be read, 4 the model cannot be loaded.");
  return [o] { return inspect(o->path, o->layers); };
}

}  // namespace foldgrad
