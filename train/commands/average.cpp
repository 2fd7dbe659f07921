// foldgrad average: averages several checkpoints into one model.
#include "train/checkpoints/average.h"

#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

// Returns the newest `last` checkpoints of a run, oldest first.
std::vector<std::string> last_checkpoints(const std::string& run, std::int64_t last) {
  const std::string checkpoints = run + "/checkpoints";
  std::vector<std::int64_t> steps = checkpoint_files::steps_in(checkpoints);
  const std::int64_t latest = checkpoint_files::step_of(checkpoint_files::read_pointer(checkpoints + "/LATEST"));
  // Ignores checkpoints that are left from before a rollback.
  if (latest >= 0) std::erase_if(steps, [&](std::int64_t step) { return step > latest; });
  if (std::int64_t(steps.size()) < last)
    throw CheckpointError(
        fmt::format("{}: there must be at least {} checkpoints, got {} (output.keep sets how many are kept)",
                    checkpoints, last, steps.size()));
  std::vector<std::string> paths;
  for (std::size_t i = steps.size() - std::size_t(last); i < steps.size(); ++i)
    paths.push_back(checkpoints + "/" + checkpoint_files::step_name(steps[i]));
  return paths;
}

Answer average(std::vector<std::string> paths, std::int64_t last, const std::string& output) {
  FOLDGRAD_CHECK(last == 0 || paths.size() == 1, "average: --last must be used with exactly one run, got {} paths",
                 paths.size());
  if (last) paths = last_checkpoints(paths[0], last);
  std::unique_ptr<Model> first;
  std::vector<NamedTensors> parameters, states;
  for (const std::string& path : paths) {
    auto model = load_model(path);
    if (first && model_json(*model) != model_json(*first))
      throw CheckpointError(find_model_directory(path) + "/config.json: must match that of " +
                            find_model_directory(paths[0]));
    parameters.push_back(model->values());
    states.push_back(model->state());
    if (!first) first = std::move(model);
  }
  copy_into("average", first->values(), average(parameters));
  copy_into("average", first->state(), average(states));
  write_model_directory(output, *first, find_model_directory(paths[0]) + "/vocabulary");
  std::string text = fmt::format("{}: the average of {} models\n", output, paths.size());
  for (const std::string& path : paths) text += fmt::format("  {}\n", find_model_directory(path));
  return {text};
}

}  // namespace

Action add_average(CLI::App& command) {
  struct Options {
    std::vector<std::string> models;
    std::string output;
    std::int64_t last = 0;
  };
  const auto o = std::make_shared<Options>();
  command.add_option("MODEL", o->models, "Checkpoints or model directories to average; with --last, a single run")
      ->required();
  command.add_option("-o,--out,--output", o->output, "Directory to create for the averaged model")->required();
  command.add_option("--last", o->last, "Average the newest N checkpoints of the run")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000000)));
  command.footer("Exit codes: 0 success, 2 usage error, 3 the output cannot be written, 4 a model cannot be loaded.");
  return [o] { return average(o->models, o->last, o->output); };
}

}  // namespace foldgrad
