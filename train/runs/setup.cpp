#include "train/runs/setup.h"

#include <fmt/format.h>

#include "engine/contains.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

void require_phases(const RecordConfig& record) {
  const std::vector<std::int64_t>& from = record.from;
  const auto wrong = [&](const char* what) {
    throw ConfigError(fmt::format("record.from {}, got [{}]", what, fmt::join(from, ", ")));
  };
  if (from.size() > 2) wrong("must be at most two updates, one of the begin and one of the end");
  if (contains(from, std::int64_t(0))) wrong("must not have 0: the first update is 1, the last -1");
  if (from.size() == 2 && (from[0] < 0 || from[1] > 0))
    wrong("must be first an update from the begin, above 0, and then one from the end, below 0");
}

}  // namespace

std::vector<RecordPhase> record_phases(const RecordConfig& record, std::int64_t updates) {
  require_phases(record);
  std::vector<RecordPhase> phases;
  for (const std::int64_t from : record.from) {
    const std::int64_t first = from > 0 ? from : updates + 1 + from, last = first + record.steps - 1;
    if (first < 1 || last > updates)
      throw ConfigError(
          fmt::format("record.from = {} with record.steps = {} reaches from update {} to {}, but the run "
                      "ends with update {} (train.steps)",
                      from, record.steps, first, last, updates));
    phases.push_back({from > 0 ? "begin" : "end", first, last});
  }
  return phases;
}

void require_trainable(const ExperimentConfig& config) {
  const TrainConfig& t = config.train;
  const std::unique_ptr<Model> smallest = smallest_model(config);
  // How many updates epochs are is not known before the data is read.
  if (t.epochs == 0 && t.warmup_epochs == 0) (void)Schedule(schedule_options(t));
  (void)Optimizer(optimizer_rule(t), parameter_groups(*smallest, t));
  require_phases(config.record);
  if (t.average_statistics && t.average_decay == 0)
    throw ConfigError("train.average_statistics goes with an average: train.average_decay must be above 0, got 0");
}

TrainConfig with_epochs_counted(const TrainConfig& config, std::int64_t batches_per_epoch) {
  TrainConfig t = config;
  if (batches_per_epoch == 0 && (t.epochs > 0 || t.warmup_epochs > 0))
    throw ConfigError("train.epochs and train.warmup_epochs must be 0: the examples of this family have no epochs");
  const auto updates = [&](std::int64_t epochs) {
    return (epochs * batches_per_epoch + t.accumulate - 1) / t.accumulate;
  };
  if (t.epochs > 0) t.steps = updates(t.epochs);
  if (t.warmup_epochs > 0) t.warmup = updates(t.warmup_epochs);
  const bool counted = t.epochs > 0 || t.warmup_epochs > 0;
  if (counted && t.schedule == ScheduleShape::cosine && t.steps <= t.warmup)
    throw ConfigError(
        fmt::format("train.epochs = {}, with this data {} updates, must be above the warm-up of train.warmup = {}, "
                    "train.warmup_epochs = {}, which is {} updates",
                    config.epochs, t.steps, config.warmup, config.warmup_epochs, t.warmup));
  return t;
}

std::string warmup_warning(const BlockConfig& config, std::int64_t passes) {
  const std::int64_t warmup = norm_warmup(config);
  if (passes >= warmup) return "";
  return fmt::format(
      "{0} never leaves its warm-up and uses no averages: norm.{0}.warmup = {1}, and the run ends after {2} "
      "training passes; half of them is a good value",
      config.normalizer, warmup, passes);
}

std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& t) {
  if (t.no_decay == Undecayed::none) return {{.parameters = model.parameters(), .weight_decay = t.weight_decay}};
  ParameterGroup decayed{.parameters = {}, .weight_decay = t.weight_decay}, others{.parameters = model.vectors()};
  for (Parameter* p : model.parameters())
    if (!contains(others.parameters, p)) decayed.parameters.push_back(p);
  return {decayed, others};
}

Optimizer::Rule optimizer_rule(const TrainConfig& t) {
  if (t.optimizer == UpdateRule::sgd) return Sgd{t.momentum, t.nesterov};
  if (t.optimizer == UpdateRule::adamw) return AdamW{t.beta1, t.beta2, t.eps};
  return Adam{t.beta1, t.beta2, t.eps};
}

ScheduleOptions schedule_options(const TrainConfig& t) {
  ScheduleOptions s{.shape = t.schedule, .peak = t.lr, .initial = t.initial_lr, .warmup = t.warmup};
  if (t.schedule == ScheduleShape::cosine) s.minimum = t.minimum_lr, s.total = t.steps;
  return s;
}

Training::Training(const ExperimentConfig& experiment, std::unique_ptr<Task> its_task)
    : task(std::move(its_task)),
      config(with_epochs_counted(experiment.train, task->batches_per_epoch())),
      optimizer(optimizer_rule(config), parameter_groups(task->model(), config)),
      schedule(schedule_options(config)),
      trainer(*task, optimizer, schedule, config) {}

}  // namespace foldgrad
