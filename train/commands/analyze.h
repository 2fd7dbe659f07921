// The analyses of `foldgrad analyze`.
#pragma once
#include "train/commands/command.h"

namespace foldgrad {

struct AnalyzeOptions {
  std::vector<std::string> runs;
  std::int64_t window = 0;    // iterations; 0: the default of the analysis
  std::string site;           // empty: the first, the middle and the last
  std::int64_t channel = -1;  // -1: those with the least and the greatest AM/GM
  // Only for cka:
  std::string picture;  // file; empty: no picture
  std::int64_t examples = 2560, batch = 256;
  std::string config, data_directory, device = "auto";
  DType dtype = DType::f32;
};

// Each returns one answer for each run: a table with its heading, and the same as JSON. Traces have an answer for each
// channel; cka has one for the two runs together.
std::vector<Answer> analyze_pnac(const AnalyzeOptions& options);
std::vector<Answer> analyze_trace(const AnalyzeOptions& options);
std::vector<Answer> analyze_skips(const AnalyzeOptions& options);
std::vector<Answer> analyze_gradient(const AnalyzeOptions& options);
std::vector<Answer> analyze_cka(const AnalyzeOptions& options);

}  // namespace foldgrad
