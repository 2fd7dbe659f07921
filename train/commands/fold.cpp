// foldgrad fold: folds a model's normalizers where possible, and certifies the result.
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/commands/command.h"
#include "train/system/device.h"

namespace foldgrad {
namespace {

struct FoldCommand {
  std::string model, out, device = "cpu";
  FoldOptions options;
};

Answer run_fold(const FoldCommand& o) {
  const std::string directory = find_model_directory(o.model);
  const auto model = load_model(directory, DType::f32, require_device(o.device));
  const Probe probe = random_probe(*model);
  const FoldedModel folded = fold(*model, o.options);
  nlohmann::ordered_json proof = certificate(*model, folded, o.options, probe);
  write_model_directory(o.out, *folded.model, directory + "/vocabulary");
  for (const auto& [key, path] : {std::pair("model", directory), {"folded", o.out}})
    proof[key] = {{"path", path}, {"sha256", model_digests(path)}};
  try {
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // for paths that are not UTF-8
    write_file_atomically(o.out + "/certificate.json", proof.dump(2, ' ', false, replace) + "\n");
  } catch (const FileError&) {
    // Without config.json the directory is not a model, so fold can be called again.
    std::filesystem::remove(o.out + "/config.json");
    throw;
  }
  return {fmt::format("{}{}: wrote the folded model and certificate.json\n", summary(proof), o.out), proof};
}

}  // namespace

Action add_fold(CLI::App& command) {
  command.alias("fuse");
  const auto o = std::make_shared<FoldCommand>();
  add_model_option(command, o->model);
  command
      .add_option("-o,--out,--output", o->out, "Output directory for the folded model; must not contain a model yet")
      ->required();
  add_fold_options(command, o->options);
  add_device_option(command, o->device);
  add_json_option(command, "Print the certificate");
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 a file cannot be read or written, 4 the model cannot be loaded, 5 a "
      "number is not finite, 6 device error.");
  return [o] { return run_fold(*o); };
}

}  // namespace foldgrad
