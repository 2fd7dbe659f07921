// foldgrad run: computes a forward pass on inputs from a file and writes the results to a file.
#include "engine/files/safetensors.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

struct RunOptions {
  std::string model, input, output, device = "auto";
  DType dtype = DType::f32;
  NonFinite non_finite = NonFinite::refuse;
};

Answer run(const RunOptions& o) {
  const Device device = require_device(o.device);
  const auto model = load_model(o.model, o.dtype == DType::f64 ? DType::f64 : DType::f32, device, o.non_finite);
  const TaskKind& task = *family_of(*model).task;
  const NamedTensors inputs = task.read_inputs(*model, o.input);
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = o.dtype};
  NamedTensors results = task.results ? task.results(*model, inputs, pass)
                                      : NamedTensors{{"logits", model->forward(inputs, pass).value()}};
  std::vector<std::string> lines;
  for (auto& [name, result] : results) {
    if (o.non_finite == NonFinite::refuse && !first_non_finite(result).empty())
      refuse_non_finite("run: the result", *model, inputs, o.dtype);
    lines.push_back(
        fmt::format("{} {} {} on {}", name, foldgrad::name(result.dtype()), result.shape(), foldgrad::name(device)));
    result = result.to(Device::cpu);
  }
  write_safetensors(o.output, results);
  return {fmt::format("{}: {}\n", o.output, fmt::join(lines, ", "))};
}

}  // namespace

Action add_run(CLI::App& command) {
  const auto o = std::make_shared<RunOptions>();
  add_model_option(command, o->model);
  command
      .add_option("--input", o->input,
                  "Input safetensors file. For a Transformer: source and input, i64 [sentences, tokens], and "
                  "optionally source_mask and input_mask, u8, 1 for tokens and 0 for padding (by default, ids equal to "
                  "pad are padding). For a vision model: images [images, S, S, 3], either u8, or f32 and normalized. "
                  "For a language model: ids, i64 [sequences, tokens]")
      ->required();
  command
      .add_option("-o,--out,--output", o->output,
                  "Output safetensors file. For a Transformer: logits [sentences, tokens, vocabulary], and memory (the "
                  "encoder's output). For a vision model: logits [images, classes]. For a language model: logits "
                  "[sequences, tokens, vocabulary]")
      ->required();
  add_dtype_option(command, o->dtype, {DType::f32, DType::f64, DType::bf16}, "Precision of the computation");
  add_device_option(command, o->device);
  add_non_finite_option(command, o->non_finite);
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 the input cannot be read or the output cannot be written, 4 the model "
      "cannot be loaded, 5 a number is not finite, 6 device error.");
  return [o] { return run(*o); };
}

}  // namespace foldgrad
