// The log of a run: events in log.jsonl (docs/training.md lists them) and lines on the terminal.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/runs/progress.h"

namespace foldgrad {

// The file log.jsonl: one JSON object per event and line, written when write() returns.
class EventLog {
 public:
  // Appends after `resume_at`, the offset of a checkpoint, and creates the file if it does not exist. Later lines are
  // cut off, since training will log them again. If the file is shorter, or has no end of line at that offset, it is
  // cut after its last whole line. Throws FileError.
  EventLog(std::string path, std::uint64_t resume_at);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Returns the number of bytes before `resume_at` that were lost.
  std::uint64_t missing() const { return missing_; }

  // Writes numbers with the fewest digits that read back as the same f64; numbers that are not finite become null.
  // Bytes that are not UTF-8 become U+FFFD. Throws std::invalid_argument unless `event` is an object, and FileError;
  // then the file ends with the last whole line, and the log can still be used.
  void write(const nlohmann::ordered_json& event);
  // Returns the offset after the last line, for checkpoints.
  std::uint64_t offset() const { return offset_; }
  // Flushes all lines to disk. Throws FileError.
  void sync() const;

 private:
  void cut(std::uint64_t offset);
  std::uint64_t line_end(std::uint64_t offset) const;  // returns the last end of a line up to `offset`

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0, missing_ = 0;
};

class RunLogger {
 public:
  // Continues the events after `offset` of the file. Gives each to `on_event` as well, unless that is null. Throws
  // FileError.
  RunLogger(const std::string& path, std::uint64_t offset, std::int64_t first, std::int64_t steps,
            std::function<void(const nlohmann::ordered_json&)> on_event);

  // Logs the start. `notes`, by their names in the event, are printed too, unless they are empty.
  void started(std::int64_t step, Task& task, const ExperimentConfig& config,
               const std::map<std::string, std::string>& notes);
  // `diagnostics` are the model's.
  void trained(const TrainingReport& report, const std::string& unit_of_work,
               const std::map<std::string, double>& diagnostics);
  void validated(std::int64_t step, const Validation& validation, double seconds);
  void layers(std::int64_t step, const std::vector<Parameter*>& trained, Model& model);
  void not_finite(std::int64_t step, const std::string& action, const std::string& failure);
  void diverged(std::int64_t step, const std::string& message);
  void ended(std::int64_t step, const std::string& outcome);

  // Writes the events that the disk has refused, if it accepts them now.
  void retry();
  ProgressLine& terminal() { return terminal_; }
  std::uint64_t offset() const { return log_.offset(); }  // as in EventLog
  void sync() { log_.sync(); }

 private:
  void log(nlohmann::ordered_json event);
  void write_unlogged();

  std::int64_t steps_;
  std::function<void(const nlohmann::ordered_json&)> on_event_;
  EventLog log_;
  std::vector<nlohmann::ordered_json> unlogged_;  // refused by the disk so far
  ProgressLine terminal_;
  bool told_signatures_ = false;
};

}  // namespace foldgrad
