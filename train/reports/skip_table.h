// When and where iterations were skipped as outliers, from a run's log.
#pragma once
#include <optional>

#include "train/reports/run_log.h"

namespace foldgrad {

struct SkipTable {
  std::vector<std::int64_t> steps;  // the last validation up to one third, two thirds and all of the training
  struct Site {
    std::string name;
    std::vector<std::int64_t> skips;  // up to each of these steps
    std::int64_t iterations;          // at the last of them
  };
  std::vector<Site> sites;  // in the order of the log
};

// Thirds without a validation are left out. Throws FileError for a log without a validation, or whose normalizers
// have no outlier test.
SkipTable skip_table(const RunLog& log);

}  // namespace foldgrad
