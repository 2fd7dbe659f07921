// Trains an experiment for `foldgrad train`: a configuration goes in; checkpoints, a log, samples and scores come out.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/parallel/processes.h"
#include "train/runs/directory.h"

namespace foldgrad {

struct TrainOptions {
  std::string config;                  // path of the TOML file
  std::vector<std::string> settings;   // in the form SECTION.KEY=VALUE
  std::string data_directory;          // the root for data.directory; may be empty
  std::string out;                     // the run's directory
  std::string resume;                  // "latest", the path of a checkpoint of this run, or empty for a new run
  bool allow_config_change = false;    // accept changed values of keys that affect the trained numbers
  std::string device = "cpu";          // the argument for require_device()
  Processes* processes = nullptr;      // processes that train together; null if there is only one
  double timeout = 600;                // seconds that a rank waits for another rank
  bool profile_communication = false;  // at the end, report how long ranks waited for each other
  BuildInfo build;
  std::vector<std::string> command;  // the program's command line
  // Called on each rank: `began` before the first update, `stop` after each update. If `stop` returns true on any rank,
  // training saves a checkpoint and ends.
  std::function<void()> began = [] {};
  std::function<bool()> stop = [] { return false; };
  // Called on rank 0 with each event of log.jsonl (docs/training.md). An exception that it throws ends training.
  std::function<void(const nlohmann::ordered_json&)> on_event = nullptr;
};

struct TrainingEnd {
  int exit_code;     // kExitOk, or kExitInterrupted if training was stopped
  std::string text;  // the deciding score and its checkpoint; empty if there was no validation
};

// Trains. Installs no signal handlers. If a checkpoint cannot be written, warns and retries at the next report; throws
// FileError if the checkpoint still cannot be written at the end.
// Throws Diverged, CommunicationError, ConfigError, CheckpointError, FileError, DeviceError, and std::invalid_argument.
TrainingEnd train_experiment(const TrainOptions& options);

}  // namespace foldgrad
