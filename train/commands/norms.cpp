// foldgrad norms: what normalizers there are.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/normalizers/normalizer.h"
#include "train/commands/commands.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

const char* name_of(Inference inference) {
  using enum Inference;
  return inference == affine   ? "affine"
         : inference == linear ? "linear"
         : inference == online ? "online"
                               : "elementwise";
}

std::string default_of(const NormalizerOption& option) {
  std::string text =
      option.default_value[0] == '=' ? "that of " + option.default_value.substr(1) : option.default_value;
  if (!option.default_in_reference.empty()) text += "; with mode=reference " + option.default_in_reference;
  return text;
}

void print_text(const std::vector<NormalizerInfo>& chosen) {
  fmt::print("offline: at inference an affine map, which folds into the neighbouring linear layers\n");
  fmt::print("online:  stays\n");
  for (const NormalizerInfo& norm : chosen) {
    fmt::print("\n{:<13}{:<9}{}\n", norm.name, norm.offline() ? "offline" : "online", norm.summary);
    for (const NormalizerOption& option : norm.options)
      fmt::print("  {:<17}{}: {} (default {})\n", option.name, option.help, option.values(), default_of(option));
  }
}

nlohmann::ordered_json json_of(const std::vector<NormalizerInfo>& chosen) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const NormalizerInfo& norm : chosen) {
    nlohmann::ordered_json options = nlohmann::ordered_json::array();
    for (const NormalizerOption& option : norm.options)
      options.push_back(
          {{"name", option.name}, {"default", default_of(option)}, {"values", option.values()}, {"help", option.help}});
    all.push_back({{"name", norm.name},
                   {"offline", norm.offline()},
                   {"inference", name_of(norm.inference)},
                   {"summary", norm.summary},
                   {"options", std::move(options)}});
  }
  return all;
}

}  // namespace

Action add_norms(CLI::App& command) {
  struct Options {
    std::vector<std::string> names;
    bool json = false;
  };
  const auto o = std::make_shared<Options>();
  command.add_option("NAME", o->names, "Only these");
  command.add_flag("--json", o->json, "Print JSON");
  return [o] {
    std::vector<NormalizerInfo> chosen;
    for (const std::string& name : o->names) chosen.push_back(normalizer_info(name));
    if (o->names.empty()) chosen = normalizers();
    o->json ? print_json(json_of(chosen)) : print_text(chosen);
    return kExitOk;
  };
}

}  // namespace foldgrad
