// An experiment from its configuration to checkpoints, a log, samples and scores: what `foldgrad train` does.
#pragma once
#include <string>
#include <vector>

#include "engine/parallel/processes.h"
#include "train/runs/directory.h"

namespace foldgrad {

struct TrainOptions {
  std::string config;                  // TOML
  std::vector<std::string> settings;   // SECTION.KEY=VALUE
  std::string data_directory;          // before data.directory; may be empty
  std::string out;                     // the run's directory
  std::string resume;                  // "latest", the path of a checkpoint of this run, or empty: it begins
  bool allow_config_change = false;    // of keys that change what is trained
  std::string device = "cpu";          // as require_device() takes it
  Processes* processes = nullptr;      // that train it together; null: this one alone
  double timeout = 600;                // seconds that a rank waits for another
  bool profile_communication = false;  // says at the end how long ranks have waited for each other
  BuildInfo build;
  std::vector<std::string> command;  // as the program was called
};

struct TrainingEnd {
  int exit_code;     // kExitOk, or kExitInterrupted after SIGINT or SIGTERM
  std::string text;  // the score that decides, and the checkpoint that has it; empty without a validation
};

// Trains. After a signal it finishes the update at hand and saves it; a second signal ends the program at once. A disk
// that refuses costs a warning and is tried again at the next report; FileError when it refuses to the end. Throws
// Diverged, CommunicationError, ConfigError, CheckpointError, FileError, DeviceError, and std::invalid_argument.
TrainingEnd train_experiment(const TrainOptions& options);

}  // namespace foldgrad
