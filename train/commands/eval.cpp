// foldgrad eval: scores a model on text with references, on text without references, or on images.
#include "engine/cpu/threads.h"
#include "engine/parallel/team.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/runs/directory.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {

Action add_eval(CLI::App& command, const BuildInfo& build) {
  struct Options {
    std::string model, device = "auto";
    ModelData data;
    EvaluationOptions evaluation;
  };
  const auto o = std::make_shared<Options>();
  add_model_option(command, o->model, "; a text model must have its vocabulary");
  add_data_options(command, o->data, "test");
  add_decoding_options(command, o->evaluation.decoding);
  add_max_tokens_option(command, o->evaluation.max_tokens);
  command.add_option("--hypotheses", o->evaluation.hypotheses, "Write the translations to this file");
  add_device_option(command, o->device);
  add_json_option(command);
  add_non_finite_option(command, o->evaluation.non_finite);
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 text or images cannot be read, 4 the model cannot be loaded, 5 a number "
      "is not finite, 6 device error.");
  return [o, build] {
    return launched(o->device, Meeting().timeout, [&](Processes* processes) {
      const Device device = require_device(o->device);
      Evaluation e;
      const auto evaluate_here = [&](Communicator* communicator) {
        const ModelData data = located(o->data, o->model);
        const auto model = load_model(o->model, DType::f32, device, o->evaluation.non_finite);
        if (communicator) {
          std::string digests;
          for (const auto& [name, digest] : model_digests(data.directory))
            digests += fmt::format("{}  {}\n", digest, name);
          require_alike(*communicator, {{"commit", build.commit}, {"model", digests}});
        }
        o->evaluation.communicator = communicator;
        e = evaluate(*model, data, o->evaluation);
      };
      if (processes)
        Team({.ranks = processes->count(), .processes = processes, .threads = threads()})
            .run([&](Communicator& communicator) { evaluate_here(&communicator); });
      else
        evaluate_here(nullptr);
      return Answer{e.text, e.json};
    });
  };
}

}  // namespace foldgrad
