// The log of a run: events in log.jsonl (docs/training.md lists them) and lines on the terminal.
#pragma once
#include <vector>

#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/runs/event_log.h"
#include "train/runs/progress.h"

namespace foldgrad {

class RunLogger {
 public:
  // Events continue after `offset` of the file. Throws FileError.
  RunLogger(const std::string& path, std::uint64_t offset, std::int64_t first, std::int64_t steps);

  // `train` is that of the configuration with epochs counted; `notes`, by their names in the event, are printed too,
  // unless they are empty.
  void started(std::int64_t step, Task& task, const ExperimentConfig& config, const TrainConfig& train,
               const std::map<std::string, std::string>& notes);
  void trained(const TrainingReport& report, const std::string& unit_of_work);
  void validated(std::int64_t step, const Validation& validation, double seconds);
  void layers(std::int64_t step, Model& model);
  void not_finite(std::int64_t step, const std::string& action, const std::string& failure);
  void diverged(std::int64_t step, const std::string& message);
  void ended(std::int64_t step, const std::string& outcome);

  ProgressLine& terminal() { return terminal_; }
  std::uint64_t offset() const { return log_.offset(); }  // as EventLog has them
  void sync() { log_.sync(); }

 private:
  void log(nlohmann::ordered_json event);

  std::int64_t steps_;
  EventLog log_;
  std::vector<nlohmann::ordered_json> unlogged_;  // refused by the disk so far
  ProgressLine terminal_;
  bool told_signatures_ = false;
};

}  // namespace foldgrad
