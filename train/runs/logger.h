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

// The file log.jsonl. Each event is a JSON object on its own line, and is in the file when write() returns.
class EventLog {
 public:
  // Opens or creates the file and truncates it at `resume_at`, the offset that a checkpoint has saved: training will
  // log the later lines again. If the file is shorter or no line ends there, truncates it after the last whole line
  // before that offset. Throws FileError.
  EventLog(std::string path, std::uint64_t resume_at);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Returns the number of bytes before `resume_at` that were lost.
  std::uint64_t missing() const { return missing_; }

  // Appends an event. Numbers have the fewest digits that read back as the same f64; numbers that are not finite become
  // null, and bytes that are not UTF-8 become U+FFFD. Throws std::invalid_argument unless `event` is an object. Throws
  // FileError if writing fails; the file then ends after its last whole line, and the log can still be used.
  void write(const nlohmann::ordered_json& event);
  // Returns the offset after the last line, for checkpoints.
  std::uint64_t offset() const { return offset_; }
  // Flushes all lines to disk. Throws FileError.
  void sync() const;

 private:
  void cut(std::uint64_t offset);
  std::uint64_t line_end(std::uint64_t offset) const;  // returns the end of the last whole line before `offset`

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0, missing_ = 0;
};

class RunLogger {
 public:
  // Continues the file after `offset`. Also passes each event to `on_event`, unless that is null. Throws FileError.
  RunLogger(const std::string& path, std::uint64_t offset, std::int64_t first, std::int64_t steps,
            std::function<void(const nlohmann::ordered_json&)> on_event);

  // Logs the start of training. Adds each note that is not empty to the event, by its name, and prints it.
  void started(std::int64_t step, Task& task, const ExperimentConfig& config,
               const std::map<std::string, std::string>& notes);
  // `diagnostics` is the result of Model::diagnostics().
  void trained(const TrainingReport& report, const std::string& unit_of_work,
               const std::map<std::string, double>& diagnostics);
  void validated(std::int64_t step, const Validation& validation, double seconds);
  void layers(std::int64_t step, const std::vector<Parameter*>& trained, Model& model);
  void not_finite(std::int64_t step, const std::string& action, const std::string& failure);
  void diverged(std::int64_t step, const std::string& message);
  void ended(std::int64_t step, const std::string& outcome);

  // Tries again to write the events that could not be written.
  void retry();
  ProgressLine& terminal() { return terminal_; }
  std::uint64_t offset() const { return log_.offset(); }  // see EventLog::offset()
  void sync() { log_.sync(); }

 private:
  void log(nlohmann::ordered_json event);
  void write_unlogged();

  std::int64_t steps_;
  std::function<void(const nlohmann::ordered_json&)> on_event_;
  EventLog log_;
  std::vector<nlohmann::ordered_json> unlogged_;  // events that could not be written to a full disk so far
  ProgressLine terminal_;
  bool told_signatures_ = false;
};

}  // namespace foldgrad
