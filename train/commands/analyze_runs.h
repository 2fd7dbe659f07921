// What the analyses of a command read of a run, and how they draw.
#pragma once
#include <string>
#include <vector>

#include "train/analyses/recording.h"
#include "train/reports/plot.h"

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

// Writes an SVG with rows of `columns` pictures, by gnuplot. Throws std::runtime_error where there is none.
void write_plots(const std::string& path, const std::vector<Plot>& plots, std::size_t columns);

}  // namespace foldgrad
