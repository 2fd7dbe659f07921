#include "train/commands/analyze_runs.h"

#include "engine/files/file.h"
#include "train/reports/run_log.h"

namespace foldgrad {

std::vector<RecordedRun> recorded_runs(const std::vector<std::string>& paths) {
  const std::vector<std::string> names = distinct_names(paths);
  std::vector<RecordedRun> runs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    RecordedRun run{paths[i], names[i], recorded_phases(paths[i])};
    if (run.phases.empty())
      throw FileError(run.path, "has no recordings: it must have been trained with record.from, such as [100, -200]");
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace foldgrad
