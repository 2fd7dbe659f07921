// foldgrad verify: properties that every model must have, checked on this very one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "train/checkpoints/model_directory.h"
#include "train/checks/model_checks.h"
#include "train/commands/commands.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

struct VerifyCommand {
  std::string model, device = "cpu";
  std::uint64_t seed = 1;
  bool json = false;
  FoldOptions options;
};

const char* name_of(CheckResult::Outcome outcome) {
  using enum CheckResult::Outcome;
  return outcome == passed ? "passed" : outcome == failed ? "FAILED" : "skipped";
}

int run_verify(const VerifyCommand& o) {
  // Numbers that are not finite are what it looks for first.
  const auto model = load_model(o.model, DType::f32, require_device(o.device), NonFinite::allow);
  const auto results = check_model(
      *model, [&o](Model& m) { return fold(m, o.options); }, random_probe(*model, o.seed),
      family_of(*model).task->checks);
  if (o.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const CheckResult& r : results)
      all.push_back({{"check", r.name}, {"outcome", name_of(r.outcome)}, {"measured", r.measured}});
    print_json(all);
  } else {
    for (const CheckResult& r : results) fmt::print("{:<8} {}: {}\n", name_of(r.outcome), r.name, r.measured);
  }
  const bool failed =
      std::ranges::any_of(results, [](const CheckResult& r) { return r.outcome == CheckResult::Outcome::failed; });
  return failed ? kExitCheckFailed : kExitOk;
}

}  // namespace

Action add_verify(CLI::App& command) {
  const auto o = std::make_shared<VerifyCommand>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command.add_option("--seed", o->seed, "Seed of the random ids that it is checked on")->capture_default_str();
  add_fold_options(command, o->options);
  add_device_option(command, o->device);
  command.add_flag("--json", o->json, "Print JSON");
  command.footer("Exit codes: 0, 1 a check failed, 2 usage, 4 the model cannot be loaded, 6 device.");
  return [o] { return run_verify(*o); };
}

}  // namespace foldgrad
