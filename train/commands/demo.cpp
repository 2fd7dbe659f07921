// foldgrad demo: runs the commands train, eval, fold, verify and report in turn, on a task that needs no files.
#include <utility>

#include "engine/files/atomic_file.h"
#include "models/normalizers/normalizer.h"
#include "train/commands/command.h"
#include "train/config/config.h"
#include "train/data/lines.h"
#include "train/runs/directory.h"
#include "train/system/device.h"
#include "train/tasks/translation/data.h"

namespace foldgrad {
namespace {

using Words = std::vector<std::string>;

struct DemoOptions {
  std::string norm = "un", device = "auto", out = "runs/demo";
  std::int64_t steps = 1500;
  std::uint64_t seed = 1;
  bool json = false;
};

// Returns configs/numbers.toml with the options applied. Shortens the normalizers' warm-ups, which are meant for
// 100,000 updates.
ExperimentConfig demo_config(const DemoOptions& o) {
  const std::int64_t warmup = o.steps / 10;
  Words settings{"norm.name=" + o.norm, fmt::format("train.steps={}", o.steps), fmt::format("train.warmup={}", warmup),
                 fmt::format("train.seed={}", o.seed),
                 // These intervals give the report's curves enough points.
                 fmt::format("validate.every={}", std::max<std::int64_t>(1, o.steps / 15)),
                 fmt::format("output.log_every={}", std::max<std::int64_t>(1, o.steps / 50))};
  const NormalizerInfo& info = normalizer_info(o.norm);
  if (info.warmup)
    for (const std::string& option : info.warmup({info.name, info.options, {}}).options)
      settings.push_back(fmt::format("norm.{}.{}={}", o.norm, option, std::max<std::int64_t>(1, warmup)));
  return parse_config(kDemoConfig, "configs/numbers.toml", settings);
}

class Demo {
 public:
  Demo(const DemoOptions& options, const BuildInfo& build) : o_(options), build_(build), config_(demo_config(o_)) {
    (void)require_device(o_.device);  // fails before a directory is made
    if (file_exists(o_.out))
      throw FileError(o_.out, "already exists; remove it, or choose another directory with --out");
  }

  Answer run() {
    const std::string config = o_.out + "/demo.toml", folded = o_.out + "/folded";
    const auto train = [&](CLI::App& c) {
      return add_train(c, build_, {"foldgrad", "train", config, "--out", o_.out, "--device", o_.device});
    };
    make_directories(o_.out);
    write_file_atomically(config, config_text(config_));
    (void)(succeeds({"train", config, "--out", o_.out, "--device", o_.device}, train) && eval(o_.out, "eval") &&
           succeeds({"fold", o_.out, "-o", folded, "--untie"}, add_fold, "fold") && eval(folded, "eval_folded") &&
           succeeds({"verify", o_.out, "--untie"}, add_verify, "verify") && succeeds({"report", o_.out}, add_report));
    if (exit_code_ != kExitOk) return {"", results_, exit_code_};
    const std::string page = RunDirectory(o_.out).report();
    return {fmt::format("\nOpen {} in a browser to see the curves, layers and translations of this run.\n", page),
            results_};
  }

 private:
  // Runs a command and prints its answer, unless --json is given. The command's JSON, if any, becomes the member `name`
  // of the demo's JSON.
  bool succeeds(Words words, const std::function<Action(CLI::App&)>& add, const std::string& name = "") {
    if (!o_.json) fmt::print("\n$ foldgrad {}\n", fmt::join(words, " "));
    std::fflush(stdout);  // comes before output to stderr
    CLI::App parser;
    const Action action = add(parser);
    parser.parse(Words(words.rbegin(), words.rend() - 1));  // parse() takes the last element first
    Answer answer = action();
    if (!o_.json) fmt::print("{}", answer.text);
    if (!name.empty()) results_[name] = std::move(answer.json);
    exit_code_ = answer.exit_code;
    return exit_code_ == kExitOk;
  }

  // Translates the test set, whose numbers are not in the training text.
  bool eval(const std::string& model, const std::string& name) {
    const std::string file = model + "/translations.txt";
    if (!succeeds(
            {"eval", model, "--beam", "1", "--max-length-a", "2", "--hypotheses", file, "--device", o_.device},
            [this](CLI::App& command) { return add_eval(command, build_); }, name))
      return false;
    const std::vector<std::string> before = std::exchange(translations_, read_lines(file));
    before.empty() ? show_translations() : compare_translations(before);
    return true;
  }

  void show_translations() const {
    if (o_.json) return;
    const auto& data = config_.data.as<DataConfig>();
    const ParallelText test = read_text(data, "", data.test);
    fmt::print("\nUnseen numbers, translated by greedy decoding:\n");
    for (std::size_t i = 0; i < 8; ++i)
      fmt::print("  {}\n    {}{}\n", test.source[i], translations_[i],
                 translations_[i] == test.target[i] ? "" : "    (wrong: " + test.target[i] + ")");
  }

  void compare_translations(const std::vector<std::string>& before) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < before.size(); ++i) same += translations_[i] == before[i];
    results_["same_translations"] = same;
    if (!o_.json) fmt::print("\n{} of {} translations equal those of the unfolded model.\n", same, before.size());
  }

  const DemoOptions& o_;
  const BuildInfo& build_;
  const ExperimentConfig config_;
  std::vector<std::string> translations_;  // translations of the last eval
  nlohmann::ordered_json results_{{"norm", o_.norm}, {"steps", o_.steps}, {"seed", o_.seed}, {"run", o_.out}};
  int exit_code_ = kExitOk;
};

std::string check_norm(const std::string& norm) try {
  (void)normalizer_info(norm);
  return "";
} catch (const std::invalid_argument& e) {
  return e.what();
}

}  // namespace

Action add_demo(CLI::App& command, const BuildInfo& build) {
  const auto options = std::make_shared<DemoOptions>();
  command.add_option("--norm", options->norm, "Name of the normalizer; `foldgrad norms` lists them")
      ->check(CLI::Validator(check_norm, "NAME"))
      ->capture_default_str();
  add_number(command, "--steps", options->steps, 1, 1000000, "Updates");
  command.add_option("--seed", options->seed, "Seed for the initial weights and the order of the data")
      ->capture_default_str();
  command.add_option("--out", options->out, "Directory to create for the run")->capture_default_str();
  add_device_option(command, options->device);
  command.add_flag("--json", options->json, "Print the results of the commands as JSON");
  command.footer(
      "Exits with the code of the first command that fails: 1 a check failed, 3 a file cannot be read or written, 5 "
      "a number is not finite, 6 device error, 130 interrupted.");
  return [options, build] { return Demo(*options, build).run(); };
}

}  // namespace foldgrad
