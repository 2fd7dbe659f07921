// foldgrad export: writes a model as files that other runtimes can run.
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

// Throws NonFiniteError if a normalizer's map is not finite. 1 / sqrt(run_var + eps) can be infinite although all
// parameters and statistics are finite.
void require_finite_maps(const Model& model) {
  for (const Normalizer* norm : model.normalizers())
    if (const auto form = norm->inference())
      for (const auto& [name, values] : {std::pair("gain", form->map.A), {"bias", form->map.B}})
        if (const std::string bad = first_non_finite(Tensor::of({norm->channels()}, values)); !bad.empty())
          throw NonFiniteError(fmt::format("export: the inference form of {} has the {} {}", norm->site(), name, bad));
}

}  // namespace

Action add_export(CLI::App& command) {
  struct Options {
    std::string model, format = "onnx", out;
  };
  const auto o = std::make_shared<Options>();
  add_model_option(command, o->model);
  command.add_option("--to", o->format, "Format")->check(CLI::IsMember({"onnx"}))->capture_default_str();
  command
      .add_option("-o,--out,--output", o->out,
                  "Output directory for the ONNX files (encoder_model.onnx, decoder_model.onnx and "
                  "decoder_with_past_model.onnx, or model.onnx), config.json, generation_config.json and the "
                  "vocabulary; existing files are replaced")
      ->required();
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 a file cannot be written, 4 the model cannot be loaded, 5 a number is "
      "not finite.");
  return [o] {
    const auto model = load_model(o->model);
    require_finite_maps(*model);
    std::vector<std::string> files = model->write_onnx(o->out);
    if (copy_vocabulary(find_model_directory(o->model) + "/vocabulary", o->out)) files.push_back("vocabulary");
    return Answer{fmt::format("{}: {}\n", o->out, fmt::join(files, ", "))};
  };
}

}  // namespace foldgrad
