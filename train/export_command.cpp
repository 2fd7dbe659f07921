// foldgrad export: a model as files that other runtimes run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "models/onnx/transformer.h"
#include "train/commands.h"
#include "train/exit_codes.h"
#include "train/model_directory.h"

namespace foldgrad {

void add_export_command(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("export", "Write a model as ONNX, for onnxruntime and others");
  struct Options {
    std::string model, format = "onnx", out;
  };
  const auto o = std::make_shared<Options>();
  command->add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command->add_option("--to", o->format, "Format")->check(CLI::IsMember({"onnx"}))->capture_default_str();
  command
      ->add_option("-o,--out", o->out,
                   "Directory of encoder.onnx, decoder.onnx and decoder_with_past.onnx, replaced if they are there")
      ->required();
  command->footer("Exit codes: 0, 1 built without ONNX, 2 usage, 3 files, 4 the model cannot be loaded.");
  command->callback([o, &exit_code] {
    write_onnx(*load_model(o->model), o->out);
    fmt::print("{}: encoder.onnx, decoder.onnx, decoder_with_past.onnx\n", o->out);
    exit_code = kExitOk;
  });
}

}  // namespace foldgrad
