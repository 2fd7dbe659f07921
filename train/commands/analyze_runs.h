// What the analyses of a command read of a run.
#pragma once
#include <string>
#include <vector>

#include "train/runs/recorded_phases.h"

namespace foldgrad {

struct RecordedRun {
  std::string path, name;
  std::vector<RecordedPhase> phases;  // at least one
};

// Throws FileError for a run without recordings, and for recordings that are not of one model, the run's.
std::vector<RecordedRun> recorded_runs(const std::vector<std::string>& paths);

}  // namespace foldgrad
