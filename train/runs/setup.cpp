#include "train/runs/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/contains.h"
#include "train/system/printable.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

void require_phases(const RecordConfig& record) {
  const std::vector<std::int64_t>& from = record.from;
  const auto wrong = [&](const char* what) {
    throw ConfigError(fmt::format("record.from {}, got [{}]", what, fmt::join(from, ", ")));
  };
  if (from.size() > 2) wrong("must contain at most two updates, one counted from the beginning and one from the end");
  if (contains(from, std::int64_t(0))) wrong("must not contain 0: the first update is 1, the last is -1");
  if (from.size() == 2 && (from[0] < 0 || from[1] > 0))
    wrong("must be an update above 0, counted from the beginning, and then one below 0, counted from the end");
}

// Returns the phases of a run, "begin" before "end". require_phases() must have accepted them.
std::vector<RecordPhase> record_phases(const RecordConfig& record, std::int64_t updates) {
  std::vector<RecordPhase> phases;
  for (const std::int64_t from : record.from) {
    const std::int64_t first = from > 0 ? from : updates + from + 1;
    if (first < 1 || first > updates - record.steps + 1)
      throw ConfigError(
          fmt::format("record.from = {} with record.steps = {} begins with update {} and does not fit into updates 1 "
                      "to {} of the run (train.steps)",
                      from, record.steps, first, updates));
    phases.push_back({from > 0 ? "begin" : "end", first, first + record.steps - 1});
  }
  return phases;
}

bool fits(const std::string& pattern, const Parameter* p) { return fnmatch(pattern.c_str(), p->name.c_str(), 0) == 0; }

struct Rate {
  std::string pattern;
  double factor = -1;
};

std::vector<Rate> parsed_rates(const TrainConfig& t) {
  std::vector<Rate> rates;
  for (const std::string& text : t.rates) {
    const std::size_t equal = std::min(text.rfind('='), text.size());
    Rate rate{text.substr(0, equal)};
    const char *begin = text.data() + std::min(equal + 1, text.size()), *end = text.data() + text.size();
    if (std::from_chars(begin, end, rate.factor).ptr != end || !(rate.factor >= 0) || !std::isfinite(rate.factor))
      throw ConfigError(
          fmt::format("train.rates must be PATTERN=FACTOR with a factor of at least 0, got {}", in_quotes(text)));
    rates.push_back(rate);
  }
  return rates;
}

void require_fit(const char* key, const std::string& pattern, const std::vector<Parameter*>& parameters) {
  if (std::ranges::any_of(parameters, [&](const Parameter* p) { return fits(pattern, p); })) return;
  std::set<std::string> beginnings;
  for (const Parameter* p : parameters) beginnings.insert(p->name.substr(0, p->name.find('.')));
  throw ConfigError(fmt::format("{}: no parameter is named {}; parameter names begin with {}", key, in_quotes(pattern),
                                fmt::join(beginnings, ", ")));
}

}  // namespace

void require_trainable(const ExperimentConfig& config) {
  const TrainConfig& t = config.train;
  const std::unique_ptr<Model> smallest = smallest_model(config);
  TrainConfig without_patterns = t;  // the patterns may name layers that the smallest model lacks
  without_patterns.rates.clear(), without_patterns.freeze.clear();
  (void)Optimizer(optimizer_rule(t), parameter_groups(*smallest, without_patterns));
  (void)parsed_rates(t);
  require_phases(config.record);
  if (t.average_statistics && t.average_decay == 0)
    throw ConfigError("train.average_statistics needs an average: train.average_decay must be above 0, got 0");
  if (t.from.empty() && (t.head != Head::automatic || !t.reset_iterations))
    throw ConfigError("train.head and train.reset_iterations need train.from, which must name a model, got \"\"");
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
        fmt::format("train.epochs = {}, which is {} updates with this data, must exceed the warm-up: with train.warmup "
                    "= {} and train.warmup_epochs = {}, the warm-up takes {} updates",
                    config.epochs, t.steps, config.warmup, config.warmup_epochs, t.warmup));
  return t;
}

std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& t) {
  std::vector<Parameter*> parameters = model.parameters();
  const std::vector<Parameter*> vectors = model.vectors(), fixed = model.fixed_parameters();
  std::erase_if(parameters, [&](Parameter* p) { return contains(fixed, p); });
  const std::vector<Rate> rates = parsed_rates(t);
  for (const std::string& pattern : t.freeze) require_fit("train.freeze", pattern, parameters);
  for (const Rate& rate : rates) require_fit("train.rates", rate.pattern, parameters);
  std::vector<ParameterGroup> groups;
  for (Parameter* p : parameters) {
    if (std::ranges::any_of(t.freeze, [p](const std::string& pattern) { return fits(pattern, p); })) continue;
    const double decay = t.no_decay == Undecayed::vectors && contains(vectors, p) ? 0 : t.weight_decay;
    double factor = 1;
    for (const Rate& rate : rates)
      if (fits(rate.pattern, p)) factor = rate.factor;
    auto group = std::ranges::find_if(
        groups, [&](const ParameterGroup& g) { return g.weight_decay == decay && g.rate == factor; });
    if (group == groups.end()) group = groups.insert(group, {.parameters = {}, .weight_decay = decay, .rate = factor});
    group->parameters.push_back(p);
  }
  if (groups.empty()) throw ConfigError("train.freeze leaves no parameter to train");
  return groups;
}

std::string learning_rates(const Model& model, const std::vector<ParameterGroup>& groups) {
  std::map<double, std::int64_t, std::greater<>> sizes;
  std::int64_t frozen = model.parameter_count();
  for (const ParameterGroup& group : groups)
    for (const Parameter* p : group.parameters) sizes[group.rate] += p->value.size(), frozen -= p->value.size();
  if (frozen == 0 && sizes.size() == 1 && sizes.contains(1)) return "";
  std::vector<std::string> parts;
  for (const auto& [rate, size] : sizes) parts.push_back(fmt::format("{} parameters x {}", size, rate));
  if (frozen > 0) parts.push_back(fmt::format("{} frozen", frozen));
  return fmt::format("learning rates: {}", fmt::join(parts, ", "));
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

Training::Training(const ExperimentConfig& experiment, std::unique_ptr<Task> its_task, Communicator* communicator,
                   const std::string& statistics)
    : task(std::move(its_task)),
      config(with_epochs_counted(experiment.train, task->batches().per_epoch())),
      optimizer(optimizer_rule(config), parameter_groups(task->model(), config)),
      schedule(schedule_options(config)),
      trainer(*task, optimizer, schedule, config, communicator),
      recorder(task->model().normalizers(), record_phases(experiment.record, config.steps), statistics) {
  trainer.observe(&recorder);
  if (experiment.validate.patience > 0 && task->facts().validates_on_test)
    throw ConfigError(fmt::format(
        "validate.patience must be 0, got {}: validation uses {}, which must not decide when training stops",
        experiment.validate.patience, task->facts().test_data()));
}

}  // namespace foldgrad
