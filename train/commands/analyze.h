// The analyses of `foldgrad analyze`. Each prints a table, or JSON, and returns the exit code.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/dtype.h"

namespace foldgrad {

struct AnalyzeOptions {
  std::vector<std::string> runs;
  std::int64_t window = 0;    // iterations; 0: as each analysis has it
  std::string site;           // empty: those that stand out
  std::string plot, density;  // files; empty: none
  std::int64_t channel = -1;  // -1: those that stand out
  bool json = false;
  // Of cka.
  std::int64_t examples = 2560, batch = 256;
  std::string config, data_directory, device = "auto";
  DType dtype = DType::f32;
};

int analyze_pnac(const AnalyzeOptions& options);
int analyze_trace(const AnalyzeOptions& options);
int analyze_skips(const AnalyzeOptions& options);
int analyze_gradient(const AnalyzeOptions& options);
int analyze_cka(const AnalyzeOptions& options);

}  // namespace foldgrad
