// foldgrad analyze: statistics of normalizers from the recordings and logs of runs, and of layers from models.
#include "train/commands/analyze.h"

namespace foldgrad {

Action add_analyze(CLI::App& command) {
  using Analysis = std::vector<Answer> (*)(const AnalyzeOptions&);
  command.require_subcommand(1);
  const auto options = std::make_shared<AnalyzeOptions>();
  const auto chosen = std::make_shared<Analysis>();
  AnalyzeOptions& o = *options;
  const auto add = [&](const char* name, const char* help, Analysis run) {
    CLI::App* analysis = command.add_subcommand(name, help);
    analysis->add_option("RUN", o.runs, "Directories of runs")->required();
    add_json_option(*analysis);
    analysis->callback([chosen, run] { *chosen = run; });
    return analysis;
  };
  const CLI::Range positive(std::int64_t(1), std::int64_t(1) << 40);
  CLI::App* pnac = add("pnac",
                       "How many channels' statistics are normally distributed over the last iterations, "
                       "compared with noise that is",
                       analyze_pnac);
  pnac->add_option("--window", o.window, "Iterations of each test (default: 32)")->check(positive);
  CLI::App* trace = add("trace", "A channel's statistics and their moving means", analyze_trace);
  trace->add_option("--site", o.site, "Normalizer (default: the first, the middle and the last)");
  trace->add_option("--channel", o.channel, "Channel (default: those of the least and the greatest AM/GM)")
      ->check(CLI::Range(std::int64_t(0), std::int64_t(1) << 40));
  trace->add_option("--window", o.window, "Iterations of the moving means (default: 4)")->check(positive);
  add("skips", "Iterations skipped as outliers, by normalizer and time, compared with noise like the recording",
      analyze_skips);
  add("gradient", "Agreement of the gradients that normalizers pass back with the exact ones", analyze_gradient);
  CLI::App* cka =
      add("cka", "Similarity of the layers of two models on validation examples, by linear CKA", analyze_cka);
  cka->get_option("RUN")->expected(2)->description("Two runs, checkpoints or model directories");
  const auto is_picture = [](const std::string& text) {
    return text.ends_with(".svg") ? "" : fmt::format("must end with .svg, got {}", text);
  };
  cka->add_option("--plot", o.picture, "Draw the similarity of all layers as a map into this SVG file")
      ->check(is_picture);
  add_number(*cka, "--examples", o.examples, 1, std::int64_t(1) << 40,
             "Validation examples, rounded down to whole batches");
  add_number(*cka, "--batch", o.batch, 1, std::int64_t(1) << 40, "Examples compared with each other at a time");
  cka->add_option("--config", o.config, "Configuration that names the data; default: that of the run of each model");
  add_data_dir_option(*cka, o.data_directory);
  add_dtype_option(*cka, o.dtype, {DType::f32, DType::f64}, "Precision of the computation");
  add_device_option(*cka, o.device);
  return [options, chosen] {
    Answer all{.json = nlohmann::ordered_json::array()};
    for (Answer& one : (*chosen)(*options)) {
      all.text += (all.text.empty() ? "" : "\n") + one.text;
      all.json.push_back(std::move(one.json));
    }
    if (*chosen == analyze_cka) all.json = nlohmann::ordered_json(all.json[0]);
    return all;
  };
}

}  // namespace foldgrad
