// The directory of a run:
//   RUN/config.toml   the effective configuration, itself valid input
//   RUN/command.txt   one line per start: the command, quoted for a shell
//   RUN/env.json      everything else that the results depend on
//   RUN/log.jsonl     events (train/runs/logger.h)
//   RUN/report.html   the report (train/reports/report.h), written when training has ended
//   RUN/samples/      step-00012000.txt, a few translations of each validation
//   RUN/exhibits.json other results of the last validation, for the report (train/reports/report.h)
//   RUN/statistics/   begin.safetensors, end.safetensors (train/analyses/recording.h)
//   RUN/checkpoints/  checkpoints (train/checkpoints/checkpoint.h)
//   RUN/lock          names the process that writes to the run (RunLock)
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace foldgrad {

class RunDirectory {
 public:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string config() const { return path_ + "/config.toml"; }
  std::string command() const { return path_ + "/command.txt"; }
  std::string environment() const { return path_ + "/env.json"; }
  std::string log() const { return path_ + "/log.jsonl"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string report() const { return path_ + "/report.html"; }
  std::string exhibits() const { return path_ + "/exhibits.json"; }
  std::string statistics() const { return path_ + "/statistics"; }
  std::string samples() const { return path_ + "/samples"; }
  std::string sample(std::int64_t step) const;

  // Returns the content of env.json, or an empty object if the file is missing.
  nlohmann::json described() const;
  // Returns the data root that env.json names if it still exists, otherwise an empty string.
  std::string data_root() const;

  // Returns true if there is a run to continue: config.toml, which begin() writes last, or a checkpoint.
  bool has_run() const;
  void require_no_run() const;  // throws FileError
  // Prepares the directory at each start: creates missing folders, removes unfinished files that a killed process left,
  // adds a line to command.txt, and overwrites env.json and config.toml. Throws FileError.
  void begin(const std::string& config_text, const std::vector<std::string>& arguments,
             const nlohmann::ordered_json& environment) const;

 private:
  std::string path_;
};

// Returns the command, quoted for a shell.
std::string command_line(const std::vector<std::string>& arguments);

// A lock that lets only one process write to a run.
class RunLock {
 public:
  // Creates the directory `run` if it does not exist. Throws FileError if another process holds the lock. The kernel
  // releases the lock when the process ends for any reason; the file RUN/lock, which names the process, stays.
  explicit RunLock(const std::string& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Describes how the program was built.
struct BuildInfo {
  std::string version, commit, compiler, flags;
};

// Returns the content of env.json: build, CPU, threads, libraries with versions, GPU, seed, and the SHA-256 of data
// files by name.
nlohmann::ordered_json describe_environment(const BuildInfo& build, std::int64_t seed,
                                            const std::map<std::string, std::string>& data_digests);

}  // namespace foldgrad
