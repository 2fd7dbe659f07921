// What the analyses of a command read of a run.
#pragma once
#include <string>
#include <vector>

#include "train/analyses/recording.h"

namespace foldgrad {

struct RecordedRun {
  struct Phase {
    std::string name;  // "begin", "end"
    Recording recording;
  };
  std::string path, name;
  std::vector<Phase> phases;  // at least one, all of the same sites
};

// Throws FileError for a run without recordings, and for recordings that are not of one model, the run's.
std::vector<RecordedRun> recorded_runs(const std::vector<std::string>& paths);

}  // namespace foldgrad
