// foldgrad eval: scores of a model on text with references, on text alone, or on images.
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {

Action add_eval(CLI::App& command) {
  struct Options {
    std::string model, device = "auto";
    ModelData data;
    EvaluationOptions evaluation;
  };
  const auto o = std::make_shared<Options>();
  add_model_option(command, o->model, "; one of text has its vocabulary");
  add_data_options(command, o->data, "test");
  add_decoding_options(command, o->evaluation.decoding);
  add_max_tokens_option(command, o->evaluation.max_tokens);
  command.add_option("--hypotheses", o->evaluation.hypotheses, "Write the translations to this file");
  add_device_option(command, o->device);
  add_json_option(command);
  add_non_finite_option(command, o->evaluation.non_finite);
  command.footer(
      "Exit codes: 0, 2 usage, 3 text or images, 4 the model cannot be loaded, 5 a number is not finite, 6 device.");
  return [o] {
    const auto model = load_model(o->model, DType::f32, require_device(o->device), o->evaluation.non_finite);
    const Evaluation e = evaluate(*model, located(o->data, o->model), o->evaluation);
    return Answer{e.text, e.json};
  };
}

}  // namespace foldgrad
