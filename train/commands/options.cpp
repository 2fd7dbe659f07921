// Options that several commands have, and --json.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/gemm/tf32.h"
#include "models/transformer/beam_search.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/certificate.h"
#include "train/commands/commands.h"
#include "train/system/device.h"

namespace foldgrad {

void add_decoding_options(CLI::App& command, DecodingOptions& o, std::int64_t& max_tokens) {
  const auto at_least = [](double least) { return CLI::Range(least, 1e9); };
  command.add_option("--beam", o.beam, "Hypotheses of the beam; 1: greedy")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(1000)))
      ->capture_default_str();
  command.add_option("--length-penalty", o.length_penalty, "Scores are divided by the length to this power")
      ->check(at_least(0))
      ->capture_default_str();
  command
      .add_option("--max-length-a", o.max_length_a,
                  "a in the longest translation, floor(a * source tokens + b); the source counts its end, the "
                  "translation does not")
      ->check(at_least(0))
      ->capture_default_str();
  command.add_option("--max-length-b", o.max_length_b, "b in the longest translation")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1000000)))
      ->capture_default_str();
  command.add_option("--max-tokens", max_tokens, "Largest batch: sentences times the tokens of the longest")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(100000000)))
      ->capture_default_str();
}

void add_non_finite_option(CLI::App& command, NonFinite& choice) {
  command.add_flag_callback(
      "--allow-non-finite", [&choice] { choice = NonFinite::allow; },
      "Accept a model with NaN or infinity in it, and results that are not finite");
}

void add_fold_options(CLI::App& command, FoldOptions& options) {
  CLI::Option* untie = command.add_flag_callback(
      "--untie", [&options] { options.tied = FoldOptions::Tied::untie; },
      "Give a tied output projection its own table (V x C more numbers), so that the last normalizer folds");
  command
      .add_flag_callback(
          "--keep-tied", [&options] { options.tied = FoldOptions::Tied::keep; },
          "Keep it tied, and keep a gain per channel of the last normalizer")
      ->excludes(untie);
  command.add_flag("--rescale-stream", options.rescale_stream,
                   "Post-norm: store the residual stream divided by the gains, so that nothing is left on it");
}

void add_device_option(CLI::App& command, std::string& device) {
  const auto known = [](const std::string& text) {
    return parse_device(text) ? "" : fmt::format("must be auto, cpu, cuda, cuda:N or emulated, got {}", text);
  };
  command
      .add_option("--device", device,
                  "Device: cpu; cuda or cuda:N (GPU number N); auto (a GPU if one can be used, else the CPU); or "
                  "emulated (CUDA "
                  "kernels on the host, for tests)")
      ->check(CLI::Validator(known, "NAME"))
      ->capture_default_str();
  command.add_flag_callback(
      "--tf32", [] { allow_tf32(true); },
      "Let a GPU round the operands of f32 products to TensorFloat-32: faster, about 3 digits in place of 7");
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

void print_json(const nlohmann::ordered_json& all) {
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace foldgrad
