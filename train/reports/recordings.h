// The recorded normalizers of a run with [record], and their summary for the report.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "train/analyses/recording.h"

namespace foldgrad {

struct RecordedPhase {
  std::string name;  // "begin", "end"
  std::string path;
  Recording recording;
};

// Reads as many as there are, all of the same sites. Throws FileError for recordings that are not of one model, the
// run's.
std::vector<RecordedPhase> recorded_phases(const std::string& run);

using PnacCurve = std::pair<std::string, std::vector<double>>;
using NoiseCurves = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>>;
// Returns PNAC of one site in one phase: "q begin", "G begin", without values where there is no G, and "noise begin".
// `noise` keeps those of noise for the next sites, by iterations and channels.
std::vector<PnacCurve> pnac_curves(const RecordedPhase& phase, std::size_t site, std::int64_t window,
                                   NoiseCurves& noise);

// The most recorded values that a report holds of a run. Beyond that, it has two channels of each site.
constexpr std::int64_t kMostTraceBytes = std::int64_t(16) << 20;

// Returns null without recordings. Else
//   normalizer  as the recordings name it
//   window      iterations of each test: 32, or as many as the shorter phase has; 0 where these are too few for a test
//   phases      [{"name": "begin", "first": 1, "last": 182, "windows": 151, "updates": [1, ...]}], first and last being
//               updates
//   sites       [{"site", "channels", "pnac", "trace"}]
//     pnac      {"q begin": 91.5, "G begin", "noise begin", ...}: means over the windows of a phase, in percent, as of
//               `analyze pnac`; no G where none is recorded; none for window 0
//     trace     {"channels": [0, 1, ...], "q begin": "...", "G begin", "flag begin", ...}: what is recorded of these
//               channels, [iterations, channels] in base64, q and G as f32 and flags as bytes. All channels, or those
//               that `analyze trace` chooses where all take more than kMostTraceBytes
//   trace_window  of AM and GM, as of `analyze trace`
// Throws FileError for files that are broken or of another model than the run's.
nlohmann::ordered_json recordings_json(const std::string& run);

}  // namespace foldgrad
