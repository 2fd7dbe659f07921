#include "train/runs/recorded_phases.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/files/file.h"
#include "train/config/config.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

void require_model_of(const std::string& run, const std::vector<RecordedPhase>& phases) {
  const RecordedPhase& first = phases.front();
  for (const RecordedPhase& phase : phases) {
    if (phase.recording.rows() == 0) throw FileError(phase.path, "has no iterations");
    if (!phase.recording.like(first.recording))
      throw FileError(phase.path, fmt::format("is a recording of another model than {}.safetensors", first.name));
  }
  const std::string config = RunDirectory(run).config();
  if (!std::filesystem::exists(config)) return;
  const std::string norm = read_config(config).blocks().normalizer;
  if (norm != first.recording.normalizer)
    throw FileError(first.path, fmt::format("is a recording of another model: its normalizer is {}, that of the run's "
                                            "config.toml {}",
                                            first.recording.normalizer, norm));
}

}  // namespace

std::vector<RecordedPhase> recorded_phases(const std::string& run) {
  std::vector<RecordedPhase> phases;
  for (const char* name : {"begin", "end"}) {
    const std::string path = fmt::format("{}/{}.safetensors", RunDirectory(run).statistics(), name);
    if (std::filesystem::exists(path)) phases.push_back({name, path, read_recording(path)});
  }
  if (!phases.empty()) require_model_of(run, phases);
  return phases;
}

}  // namespace foldgrad
