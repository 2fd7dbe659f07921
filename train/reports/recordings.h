// What the recordings of a run say of its normalizers, for the report.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace foldgrad {

// Null without recordings. Else
//   normalizer  as the recordings name it
//   window      iterations of each test: 32, or as many as the shorter phase has; 0 where these are too few for a test
//   phases      [{"name": "begin", "first": 1, "last": 182, "windows": 151}], first and last being updates
//   sites       [{"site", "channels", "pnac": {"q begin": 91.5, "G begin", "noise begin", ...}}]: means over the
//               windows of a phase, in percent, as of `analyze pnac`; no G where none is recorded; none for window 0
// Throws FileError for files that are broken or of another model than the run's.
nlohmann::ordered_json recordings_json(const std::string& run);

}  // namespace foldgrad
