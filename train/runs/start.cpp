#include "train/runs/start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "train/data/data_sets.h"
#include "train/runs/directory.h"
#include "train/runs/ranks.h"
#include "train/system/json_file.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::optional<NewestCheckpoint> find_checkpoint(const TrainOptions& options, const RunDirectory& run) {
  std::error_code ignored;
  if (options.resume.empty()) {
    run.require_no_run();
    return std::nullopt;
  }
  if (options.resume != "latest") {
    if (!fs::equivalent(fs::path(options.resume + "/..").lexically_normal(), run.checkpoints(), ignored))
      throw CheckpointError(fmt::format("{}: must be a directory in {}", options.resume, run.checkpoints()));
    return NewestCheckpoint{options.resume, load_checkpoint(options.resume), {}};
  }
  if (!checkpoint_files::steps_in(run.checkpoints()).empty()) return load_newest_checkpoint(run.checkpoints());
  say("there is no {} yet: starting at step 0\n", run.has_run() ? "checkpoint" : "run");
  return std::nullopt;
}

// Returns the data root: --data-dir if it was given, else a resumed run's root if it still exists, else the default.
std::string find_data_root(const TrainOptions& options, const RunDirectory& run) {
  if (options.data_directory.empty() && !options.resume.empty())
    if (const std::string root = run.data_root(); !root.empty()) return root;
  return fs::absolute(data_root(options.data_directory));
}

// Prints a note about each setting of a normalizer that does not occur in the model.
void note_unused(const std::vector<std::string>& settings, const BlockConfig& blocks) {
  for (const std::string& setting : settings) {
    const std::size_t dot = setting.find('.'), end = setting.find('.', dot + 1);
    if (!setting.starts_with("norm.") || end == setting.npos || end > setting.find('=')) continue;
    const std::string name = setting.substr(dot + 1, end - dot - 1);
    const auto at_a_site = [&](const auto& site) { return site.second == name; };
    if (name != blocks.normalizer && std::ranges::none_of(blocks.normalizer_at, at_a_site))
      say("note: --set {} has no effect, since norm.name is {}\n", setting, blocks.normalizer);
  }
}

[[noreturn]] void refuse(const Pretrained& from, const char* file, const std::string& what) {
  const bool folded = file_exists(from.directory + "/certificate.json");
  throw CheckpointError(fmt::format(
      "{}/{}: {}{}", from.directory, file, what,
      folded ? ". The model was folded; start from the unfolded model, which still has its normalizers" : ""));
}

// Returns the value of a key of config.json, or null if it is missing.
ordered_json value_of(const ordered_json& config, const std::string& section, const std::string& name) {
  return config.value(ordered_json::json_pointer("/" + section + "/" + name), ordered_json());
}

void require_same_function(const Pretrained& from, const ExperimentConfig& config) {
  const auto require_same = [&](const std::string& key, const ordered_json& value, const ordered_json& own) {
    if (value != own)
      refuse(from, "config.json",
             fmt::format("{0} is {1}, but {2} in this configuration; set it to {1}, or start from another model", key,
                         shown(value), shown(own)));
  };
  require_same("model.family", from.model->family(), config.family);
  const ordered_json theirs = model_json(*from.model);
  ExperimentConfig visited = config;
  visit_config(visited, [&](const auto& own, const ConfigKey& key) {
    const ordered_json value = value_of(theirs, key.section, key.name);
    if (key.required_in_json && !value.is_null()) require_same(key.full_name(), value, own);
  });
}

// Returns true if both models have the same number of classes, with the same names. Missing names count as equal.
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
        fmt::format("{} {}, but must be {} according to this configuration and its data; {}", name,
                    found == theirs.end() ? "is missing" : fmt::format("is {}", found->second.shape()), tensor.shape(),
                    contains(head, name) ? "train.head = \"new\" creates a new output layer"
                                         : "config.json in the same directory has the right sizes"));
  }
  for (const auto& [name, tensor] : theirs)
    if (!own.contains(name))
      refuse(from, file,
             fmt::format("{} {} does not exist in a model with this configuration; config.json in the same directory "
                         "has the right keys",
                         name, tensor.shape()));
}

std::vector<std::string> head_of(Model& model) {
  std::vector<std::string> names;
  for (const Parameter* p : model.output_parameters()) names.push_back(p->name);
  return names;
}

}  // namespace

RunStart find_start(const TrainOptions& options) {
  const RunDirectory run(options.out);
  RunStart start{read_config(options.config, options.settings), find_data_root(options, run),
                 find_checkpoint(options, run)};
  const int processes = options.processes ? options.processes->count() : 1;
  if (const std::int64_t shards = shards_of(start.config.train, processes); shards > 1)
    start.config.train.shards = shards;
  note_unused(options.settings, start.config.blocks());
  if (!start.checkpoint) return start;
  for (const std::string& warning : start.checkpoint->warnings) say("warning: {}\n", warning);
  require_same_trajectory(*start.checkpoint, start.config, run.config(), options.allow_config_change);
  return start;
}

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
                     : config.reset_iterations ? "; iteration counts restart at 0"
                                               : "; iteration counts continue");
}

std::unique_ptr<Task> begin_task(RunStart& start, Device device) {
  static std::mutex one_at_a_time;  // so that the ranks of this process train SentencePiece one after another
  const std::lock_guard lock(one_at_a_time);
  const ExperimentConfig& config = start.config;
  std::optional<Pretrained> from;
  if (!start.checkpoint) from = load_pretrained(config);
  const std::string earlier = start.checkpoint ? start.checkpoint->path : from ? from->directory : "";
  std::unique_ptr<Task> task =
      make_task(config, data_directory(config.data_directory(), start.data_root), earlier, device);
  if (from) start.from = begin_from(*from, task->model(), config.train);
  return task;
}

RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from) {
  RunState state = from_checkpoint(from.contents, from.path);
  try {
    trainer.restore(state.training);
  } catch (const std::invalid_argument& e) {
    throw CheckpointError(fmt::format("{}: does not belong to this run's model: {}", from.path, e.what()));
  }
  return state;
}

}  // namespace foldgrad
