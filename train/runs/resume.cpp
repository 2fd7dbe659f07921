#include "train/runs/resume.h"

#include <fmt/format.h>

#include <utility>

#include "engine/files/file.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/system/json_file.h"

namespace foldgrad {
namespace {

using nlohmann::json;

constexpr std::string_view kWeight = "weight.", kStatistic = "statistic.";

// Stores the validated model and, if it is an average, the weights with which training continues.
void put_model(const TrainingState& t, CheckpointContents& c) {
  c.model = to(t.average.empty() ? t.parameters : t.average, Device::cpu);
  c.norm_state = to(t.normalizers, Device::cpu);
  if (t.average.empty()) return;
  for (const auto& [name, tensor] : to(t.parameters, Device::cpu))
    c.optimizer.emplace(std::string(kWeight) + name, tensor);
  for (auto& [name, tensor] : c.norm_state)
    if (const auto averaged = c.model.extract(name)) {
      c.optimizer.emplace(std::string(kStatistic) + name, tensor);
      tensor = averaged.mapped();
    }
}

// Undoes put_model().
void take_model(const CheckpointContents& c, TrainingState& t) {
  t.normalizers = c.norm_state;
  NamedTensors averages;
  for (const auto& [name, tensor] : c.optimizer) {
    if (name.starts_with(kWeight)) {
      t.parameters.emplace(name.substr(kWeight.size()), tensor);
    } else if (name.starts_with(kStatistic)) {
      const std::string statistic = name.substr(kStatistic.size());
      averages.emplace(statistic, std::exchange(t.normalizers[statistic], tensor));
    } else {
      t.optimizer.emplace(name, tensor);
    }
  }
  if (t.parameters.empty()) {
    t.parameters = c.model;
    return;
  }
  t.average = c.model;
  t.average.merge(averages);
}

}  // namespace

std::string reason_to_refuse(const CheckpointContents& c) {
  for (const auto* part : {&c.model, &c.optimizer, &c.norm_state})
    for (const auto& [name, tensor] : *part)
      if (const std::string reason = reason_to_refuse(tensor); !reason.empty())
        return fmt::format("tensor {} {}", name, reason);
  for (const auto& [name, tensor] : c.optimizer)  // Adam takes the roots of these moments
    if (name.starts_with("exp_avg_sq.") && tensor.dtype() == DType::f32)
      for (const float v : tensor.values<float>())
        if (v < 0) return fmt::format("tensor {} must be at least 0, got {}", name, v);
  return "";
}

CheckpointContents to_checkpoint(const RunState& state, std::int64_t step, const std::string& config_hash,
                                 std::uint64_t log_offset) {
  const TrainingState& t = state.training;
  CheckpointContents c;
  c.step = step;
  c.config_hash = config_hash;
  c.log_offset = log_offset;
  c.optimizer = to(t.optimizer, Device::cpu);
  put_model(t, c);
  const BestValidation& best = state.best;
  const ReportSums& sums = t.since_report;
  c.state = {
      {"epoch", t.cursor.epoch},
      {"batch", t.cursor.batch},
      {"best", {{"step", best.step}, {"score", best.score}, {"loss", best.loss}, {"text", best.text}}},
      {"without_better", state.without_better},
      {"since_report", {{"loss", sums.loss}, {"seconds", sums.seconds}, {"weight", sums.weight}, {"work", sums.work}}}};
  return c;
}

RunState from_checkpoint(const CheckpointContents& c, const std::string& path) try {
  if (const std::string reason = reason_to_refuse(c); !reason.empty()) throw CheckpointError(path + ": " + reason);
  RunState state;
  TrainingState& t = state.training;
  take_model(c, t);
  const std::string file = path + "/state.json";
  t.cursor.epoch = member<std::int64_t>(c.state, "epoch", file);
  t.cursor.batch = member<std::int64_t>(c.state, "batch", file);
  const json best = member<json>(c.state, "best", file);
  state.best = {member<std::int64_t>(best, "step", file), member<double>(best, "score", file),
                member<double>(best, "loss", file), member<std::string>(best, "text", file)};
  state.without_better = member<std::int64_t>(c.state, "without_better", file);
  const json sums = member<json>(c.state, "since_report", file);
  t.since_report = {member<double>(sums, "loss", file), member<double>(sums, "seconds", file),
                    member<std::int64_t>(sums, "weight", file), member<std::int64_t>(sums, "work", file)};
  return state;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

void require_same_trajectory(const NewestCheckpoint& checkpoint, const ExperimentConfig& config,
                             const std::string& before, bool allow_change) {
  const std::string hash = config_hash(config), want = checkpoint.contents.config_hash;
  if (allow_change || want == hash) return;
  std::vector<std::string> changes;
  try {
    changes = trajectory_changes(read_config(before), config);
  } catch (const std::runtime_error&) {  // the file is missing or was written by another version
  }
  if (changes.empty()) changes.push_back(fmt::format("the configuration's hash was {} and is now {}", want, hash));
  throw CheckpointError(fmt::format(
      "{}: the configuration differs from the checkpoint's: {}. Pass --allow-config-change to resume anyway",
      checkpoint.path, fmt::join(changes, "; ")));
}

void require_same_data(const NewestCheckpoint& checkpoint, const RunDirectory& run,
                       const std::map<std::string, std::string>& digests) {
  const nlohmann::json before = run.described()["data"];
  std::vector<std::string> changed;
  for (const auto& [name, digest] : digests)
    if (const auto found = before.find(name); found != before.end() && *found != digest) changed.push_back(name);
  if (!changed.empty())
    throw CheckpointError(
        fmt::format("{}: the data differ from the run's data: {}. Pass --allow-config-change to resume anyway",
                    checkpoint.path, fmt::join(changed, ", ")));
}

}  // namespace foldgrad
