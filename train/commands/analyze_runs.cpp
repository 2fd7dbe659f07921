#include "train/commands/analyze_runs.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/files/file.h"
#include "train/config/config.h"
#include "train/reports/run_log.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

std::string file_of(const std::string& run, const std::string& phase) {
  return RunDirectory(run).statistics() + "/" + phase + ".safetensors";
}

void require_model_of(const RecordedRun& run) {
  const Recording& first = run.phases.front().recording;
  for (const RecordedRun::Phase& phase : run.phases) {
    const std::string path = file_of(run.path, phase.name);
    if (phase.recording.rows() == 0) throw FileError(path, "has no iterations");
    if (!phase.recording.like(first))
      throw FileError(path, fmt::format("is a recording of another model than {}.safetensors", run.phases[0].name));
  }
  const std::string config = RunDirectory(run.path).config();
  if (!std::filesystem::exists(config)) return;
  const std::string norm = read_config(config).blocks().normalizer;
  if (norm != first.normalizer)
    throw FileError(file_of(run.path, run.phases[0].name),
                    fmt::format("is a recording of another model: its normalizer is {}, that of the run's config.toml "
                                "{}",
                                first.normalizer, norm));
}

}  // namespace

std::vector<RecordedRun> recorded_runs(const std::vector<std::string>& paths) {
  const std::vector<std::string> names = distinct_names(paths);
  std::vector<RecordedRun> runs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    RecordedRun run{paths[i], names[i], {}};
    for (const char* phase : {"begin", "end"})
      if (const std::string path = file_of(run.path, phase); std::filesystem::exists(path))
        run.phases.push_back({phase, read_recording(path)});
    if (run.phases.empty())
      throw FileError(run.path, "has no recordings: it must have been trained with record.from, such as [100, -200]");
    require_model_of(run);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace foldgrad
