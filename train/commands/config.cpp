// foldgrad config and foldgrad norms: list all keys and normalizers, or check and print a configuration.
#include "train/config/config.h"

#include "models/normalizers/normalizer.h"
#include "train/commands/command.h"
#include "train/runs/setup.h"

namespace foldgrad {
namespace {

std::string default_of(const NormalizerOption& option) {
  std::string text =
      option.default_value[0] == '=' ? "that of " + option.default_value.substr(1) : option.default_value;
  if (!option.default_in_reference.empty()) text += "; with mode=reference " + option.default_in_reference;
  return text;
}

// Returns only the names of the normalizers, grouped by their form at inference.
std::string overview() {
  using enum Inference;
  std::string text;
  for (const auto& [inference, title] :
       {std::pair(affine, "Foldable (an affine map of each channel at inference):"),
        std::pair(linear, "Foldable (a linear map at inference):"),
        std::pair(elementwise, "Not foldable (a function of each element):"),
        std::pair(online, "Not foldable (statistics of the current tokens are needed):")}) {
    std::vector<std::string> names;
    for (const NormalizerInfo& norm : normalizers())
      if (norm.inference == inference) names.push_back(norm.name);
    text += fmt::format("{}\n  {}\n", title, fmt::join(names, " "));
  }
  return text +
         "`foldgrad norms NAME` describes a normalizer and its options; docs/normalizers.md has the equations.\n";
}

Answer describe(const std::vector<NormalizerInfo>& normalizers) {
  Answer answer{"", nlohmann::ordered_json::array()};
  for (const NormalizerInfo& norm : normalizers) {
    answer.text += fmt::format("{}{}: {}\n", answer.text.empty() ? "" : "\n", norm.name, norm.summary);
    nlohmann::ordered_json options = nlohmann::ordered_json::array();
    for (const NormalizerOption& option : norm.options) {
      answer.text +=
          fmt::format("  {:<17}{}: {} (default {})\n", option.name, option.help, option.values(), default_of(option));
      options.push_back(
          {{"name", option.name}, {"default", default_of(option)}, {"values", option.values()}, {"help", option.help}});
    }
    answer.json.push_back({{"name", norm.name},
                           {"offline", norm.offline()},
                           {"inference", name(norm.inference)},
                           {"summary", norm.summary},
                           {"options", std::move(options)}});
  }
  return answer;
}

}  // namespace

Action add_config(CLI::App& command) {
  struct Options {
    std::string file;
    std::vector<std::string> settings;
  };
  const auto options = std::make_shared<Options>();
  const CLI::Option* file = command.add_option("CONFIG", options->file, "TOML configuration");
  add_settings_option(command, options->settings);
  command.footer("Exit codes: 0 success, 2 the configuration is invalid, 3 the file cannot be read.");
  return [options, file] {
    if (file->count() == 0 && options->settings.empty()) return Answer{config_help()};
    FOLDGRAD_CHECK(file->count() == 0 || !options->file.empty(), "CONFIG must name a file, got \"\"");
    const ExperimentConfig config =
        file->count() == 0 ? parse_config("", "", options->settings) : read_config(options->file, options->settings);
    require_trainable(config);
    return Answer{config_text(config)};
  };
}

Action add_norms(CLI::App& command) {
  const auto names = std::make_shared<std::vector<std::string>>();
  command.add_option("NAME", *names, "Only these");
  add_json_option(command);
  return [names] {
    std::vector<NormalizerInfo> chosen;
    for (const std::string& name : *names) chosen.push_back(normalizer_info(name));
    if (!names->empty()) return describe(chosen);
    return Answer{overview(), describe(normalizers()).json};
  };
}

}  // namespace foldgrad
