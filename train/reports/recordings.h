// The recordings of a run's normalizers, made if its configuration has [record], and their summary for the report.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "train/analyses/recording.h"

namespace foldgrad {

struct RecordedPhase {
  std::string name;  // for example, "begin" or "end"
  std::string path;
  Recording recording;
};

// Reads all recordings of a run. Throws FileError unless all of them record the run's model, with the same sites.
std::vector<RecordedPhase> recorded_phases(const std::string& run);

// Returns null if there are no recordings, otherwise
//   normalizer  the normalizer's name
//   window      iterations in each test: 32, or the length of the shorter phase; 0 if that is too short for a test
//   phases      [{"name": "begin", "first": 1, "last": 182, "windows": 151, "updates": [1, ...]}]; "first" and
//               "last" are updates
//   sites       [{"site", "channels", "pnac", "trace"}]
//     pnac      {"q begin": 91.5, "G begin", "noise begin", ...}: means over the windows of a phase, in percent. "G" is
//               absent if it was not recorded. If `window` is 0, "pnac" is absent
//     trace     {"channels": [0, 1, ...], "q begin": "...", "G begin", "flag begin", ...}: recorded values of these
//               channels, [iterations, channels] in base64, q and G as f32 and flags as bytes. These are all channels,
//               or outstanding_channels() if the values of all channels and sites take more than 16 MiB
//   trace_window  window of the arithmetic and geometric means (AM and GM)
// Throws FileError if a file is damaged or records a model that is not the run's.
nlohmann::ordered_json recordings_json(const std::string& run);

}  // namespace foldgrad
