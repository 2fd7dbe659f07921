#include "train/runs/pretrained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "train/checks/checkpoint_error.h"
#include "train/system/json_file.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void refuse(const Pretrained& from, const char* file, const std::string& what) {
  const bool folded = file_exists(from.directory + "/certificate.json");
  throw CheckpointError(
      fmt::format("{}/{}: {}{}", from.directory, file, what,
                  folded ? ". The model was folded: begin from the one before that, which has its normalizers" : ""));
}

// A key of config.json; null where it is not there.
ordered_json value_of(const ordered_json& config, const std::string& section, const std::string& name) {
  return config.value(ordered_json::json_pointer("/" + section + "/" + name), ordered_json());
}

void require_same_function(const Pretrained& from, const ExperimentConfig& config) {
  const auto require_same = [&](const std::string& key, const ordered_json& value, const ordered_json& own) {
    if (value != own)
      refuse(from, "config.json",
             fmt::format("{0} is {1}, but {2} in this configuration; set it to {1}, or begin from another model", key,
                         shown(value), shown(own)));
  };
  require_same("model.family", from.model->family(), config.family);
  const ordered_json theirs = model_json(*from.model);
  visit_config(config, [&](const auto& own, const ConfigKey& key) {
    const ordered_json value = value_of(theirs, key.section, key.name);
    if (key.required_in_json && !value.is_null()) require_same(key.full_name(), value, own);
  });
}

// False where their number differs, or their names; those of a model that has none are taken for the same.
bool have_same_classes(const Model& a, const Model& b) {
  const ordered_json one = model_json(a), other = model_json(b);
  const ordered_json names = value_of(one, "model", "class_names"), others = value_of(other, "model", "class_names");
  return value_of(one, "model", "classes") == value_of(other, "model", "classes") &&
         (names.is_null() || others.is_null() || names == others);
}

void require_fit(const Pretrained& from, const char* file, const NamedTensors& own, const NamedTensors& theirs,
                 const std::vector<std::string>& head) {
  for (const auto& [name, tensor] : own) {
    const auto found = theirs.find(name);
    if (found != theirs.end() && found->second.shape() == tensor.shape()) continue;
    refuse(
        from, file,
        fmt::format("{} {}, but must be {} by this configuration and its data; {}", name,
                    found == theirs.end() ? "is missing" : fmt::format("is {}", found->second.shape()), tensor.shape(),
                    contains(head, name) ? "train.head = \"new\" begins with a new one"
                                         : "config.json beside it has the sizes that fit"));
  }
  for (const auto& [name, tensor] : theirs)
    if (!own.contains(name))
      refuse(from, file,
             fmt::format("{} {} has no place in a model of this configuration; config.json beside it has the keys "
                         "that make one",
                         name, tensor.shape()));
}

std::vector<std::string> head_of(Model& model) {
  std::vector<std::string> names;
  for (const Parameter* p : model.output_parameters()) names.push_back(p->name);
  return names;
}

}  // namespace

std::optional<Pretrained> load_pretrained(const ExperimentConfig& config) {
  if (config.train.from.empty()) return std::nullopt;
  const std::string directory = find_model_directory(config.train.from);
  Pretrained from{directory, load_model(directory)};
  require_same_function(from, config);
  return from;
}

std::string begin_from(const Pretrained& from, Model& model, const TrainConfig& config) {
  const std::vector<std::string> head = head_of(model);
  const bool fresh =
      config.head == Head::fresh || (config.head == Head::automatic && !have_same_classes(*from.model, model));
  NamedTensors own = model.values(), theirs = from.model->values();
  if (fresh) {
    for (const std::string& name : head) own.erase(name);
    for (const std::string& name : head_of(*from.model)) theirs.erase(name);
  }
  const NamedTensors state = from.model->state();
  require_fit(from, "model.safetensors", own, theirs, head);
  require_fit(from, "norm_state.safetensors", model.state(), state, {});
  copy_into("train.from", own, theirs);
  model.restore(state);
  if (config.reset_iterations)
    for (Normalizer* norm : model.normalizers()) norm->reset_iterations();
  return fmt::format("{} tensors from {}{}{}", own.size(), from.directory,
                     fresh ? fmt::format("; new head: {}", fmt::join(head, ", ")) : ", head included",
                     state.empty()             ? ""
                     : config.reset_iterations ? "; iterations count from 0"
                                               : "; iterations go on");
}

}  // namespace foldgrad
