#include <filesystem>

#include "engine/gemm/gemm.h"
#include "models/fold/fold.h"
#include "models/transformer/beam_search.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/command.h"
#include "train/runs/directory.h"
#include "train/system/device.h"
#include "train/system/printable.h"
#include "train/tasks/families.h"

namespace foldgrad {

void add_model_option(CLI::App& command, std::string& model, const std::string& note) {
  command.add_option("MODEL", model, "Model directory, checkpoint or run" + note)->required();
}

void add_json_option(CLI::App& command, const std::string& help) { command.add_flag("--json", help); }

CLI::Validator number_in(double least, double most) {
  const auto wrong = [=](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return fits ? "" : fmt::format("must be a number from {} to {}, got {}", least, most, in_quotes(text));
  };
  return CLI::Validator(wrong, fmt::format("FLOAT in [{} - {}]", least, most));
}

void add_device_option(CLI::App& command, std::string& device) {
  const auto known = [](const std::string& text) {
    if (parse_device(text)) return std::string();
    return fmt::format("must be auto, cpu, cuda, cuda:N or emulated, got {}{}", text,
                       text.starts_with("gpu") ? "; did you mean cuda?" : "");
  };
  command
      .add_option("--device", device,
                  "Device: cpu; cuda or cuda:N (GPU number N); auto (a GPU if one can be used, else the CPU); or "
                  "emulated (CUDA kernels on the host, for tests)")
      ->check(CLI::Validator(known, "{auto,cpu,cuda,emulated}"))
      ->capture_default_str();
  command.add_flag_callback(
      "--tf32", [] { allow_tf32(true); },
      "Let a GPU round the operands of f32 matrix products to TensorFloat-32, which is faster but keeps about 3 digits "
      "instead of 7");
}

void add_dtype_option(CLI::App& command, DType& dtype, const std::vector<DType>& choices, const std::string& help) {
  std::map<std::string, DType> by_name;
  std::vector<std::string> names;
  for (const DType choice : choices) names.push_back(name(choice)), by_name[names.back()] = choice;
  const auto choose = [&dtype, by_name](const std::string& chosen) { dtype = by_name.at(chosen); };
  command.add_option_function<std::string>("--dtype", choose, help)
      ->check(CLI::IsMember(names))
      ->default_str(name(dtype));
}

CLI::Option* add_repeated_option(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                                 const std::string& value, const std::string& help) {
  return command.add_option(name, values, help + "; can be repeated")
      ->type_name(value)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void add_settings_option(CLI::App& command, std::vector<std::string>& settings) {
  const auto wrong = [](const std::string& setting) {
    return setting.find('=') != setting.npos ? "" : setting + " must be SECTION.KEY=VALUE";
  };
  add_repeated_option(command, "--set", settings, "SECTION.KEY=VALUE", "Override a key in CONFIG")->check(wrong);
}

void add_data_dir_option(CLI::App& command, std::string& directory) {
  command.add_option("--data-dir", directory, "Root directory for data.directory; default: $FOLDGRAD_DATA");
}

void add_non_finite_option(CLI::App& command, NonFinite& choice) {
  command.add_flag_callback(
      "--allow-non-finite", [&choice] { choice = NonFinite::allow; },
      "Accept a model that contains NaN or infinity, and results that are not finite");
}

void add_decoding_options(CLI::App& command, DecodingOptions& o) {
  add_number(command, "--beam", o.beam, 1, 1000, "Number of hypotheses in the beam; 1 means greedy decoding");
  add_number(command, "--length-penalty", o.length_penalty, 0, 1e9, "Divide scores by the length raised to this power");
  add_number(
      command, "--max-length-a", o.max_length_a, 0, 1e9,
      "Factor a in the length limit floor(a * source tokens + b) of a translation; the source length includes the end "
      "token, the limit does not");
  add_number(command, "--max-length-b", o.max_length_b, 0, 1000000, "Constant b in the length limit of a translation");
}

void add_max_tokens_option(CLI::App& command, std::int64_t& max_tokens) {
  add_number(command, "--max-tokens", max_tokens, 1, 100000000,
             "Maximum batch size: number of sentences times the length of the longest one, in tokens");
}

void add_fold_options(CLI::App& command, FoldOptions& options) {
  CLI::Option* untie = command.add_flag_callback(
      "--untie", [&options] { options.tied = FoldOptions::Tied::untie; },
      "Give a tied output projection its own table (V x C more parameters), so that the last normalizer can be folded");
  command
      .add_flag_callback(
          "--keep-tied", [&options] { options.tied = FoldOptions::Tied::keep; },
          "Keep the output projection tied, and keep the per-channel gain of the last normalizer")
      ->excludes(untie);
  command.add_flag("--rescale-stream", options.rescale_stream,
                   "For post-norm: store the residual stream divided by the gains, so that no normalizer operation is "
                   "left on the stream");
}

void add_data_options(CLI::App& command, ModelData& data, const std::string& split) {
  data.split = split;
  command.add_option(
      "--source", data.source,
      "File with one sentence per line, or with text for a language model; relative to --data-dir if it is given");
  command.add_option("--reference", data.reference, "File with the reference translations");
  command
      .add_option("--split", data.split,
                  "Split to use if no files are given: train, valid or test of the run that MODEL belongs to, or "
                  "another name in the run's data directory")
      ->capture_default_str();
  command.add_option("--data-dir", data.data_directory,
                     "Root directory for data.directory or --source; default: the root of the run that MODEL belongs "
                     "to, otherwise $FOLDGRAD_DATA");
  command.add_option(
      "--config", data.config,
      "Configuration that specifies the data; default: the configuration of the run that MODEL belongs to");
}

ModelData located(ModelData data, const std::string& path) {
  data.model = path;
  data.directory = find_model_directory(path);
  if (!data.config.empty()) return data;
  data.config = find_run_config(path);
  if (data.data_directory.empty() && data.source.empty() && !data.config.empty()) {
    const std::string run = std::filesystem::path(data.config).parent_path();
    data.data_directory = RunDirectory(run.empty() ? "." : run).data_root();
  }
  return data;
}

}  // namespace foldgrad
