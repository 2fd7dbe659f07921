// foldgrad verify: checks one model for properties that every model must have.
#include "train/checkpoints/model_directory.h"
#include "train/checks/model_checks.h"
#include "train/commands/command.h"
#include "train/system/device.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

struct VerifyCommand {
  std::string model, device = "cpu";
  std::uint64_t seed = 1;
  FoldOptions options;
};

Answer run_verify(const VerifyCommand& o) {
  // Non-finite numbers are allowed here because the first check looks for them.
  const auto model = load_model(o.model, DType::f32, require_device(o.device), NonFinite::allow);
  Answer answer{.json = nlohmann::ordered_json::array()};
  const auto fold_it = [&o](Model& m) { return fold(m, o.options); };
  for (const CheckResult& r :
       check_model(*model, fold_it, random_probe(*model, o.seed), family_of(*model).task->checks)) {
    answer.text += fmt::format("{:<8} {}: {}\n", name(r.outcome), r.name, r.measured);
    answer.json.push_back({{"check", r.name}, {"outcome", name(r.outcome)}, {"measured", r.measured}});
    if (r.outcome == CheckResult::Outcome::failed) answer.exit_code = kExitCheckFailed;
  }
  return answer;
}

}  // namespace

Action add_verify(CLI::App& command) {
  const auto o = std::make_shared<VerifyCommand>();
  add_model_option(command, o->model);
  command.add_option("--seed", o->seed, "Seed for the random ids in the checks")->capture_default_str();
  add_fold_options(command, o->options);
  add_device_option(command, o->device);
  add_json_option(command);
  command.footer(
      "Exit codes: 0 success, 1 a check failed, 2 usage error, 4 the model cannot be loaded, 6 device error.");
  return [o] { return run_verify(*o); };
}

}  // namespace foldgrad
