// The recordings of a run with [record].
#pragma once
#include <string>
#include <vector>

#include "train/analyses/recording.h"

namespace foldgrad {

struct RecordedPhase {
  std::string name;  // "begin", "end"
  std::string path;
  Recording recording;
};

// As many as there are, all of the same sites. Throws FileError for recordings that are not of one model, the run's.
std::vector<RecordedPhase> recorded_phases(const std::string& run);

}  // namespace foldgrad
