// Runs training inside the test's process. Each test changes a few settings of a minimal configuration.
#pragma once
#include "engine/cpu/threads.h"
#include "tests/harness/compare.h"
#include "tests/train/runs/numbers.h"
#include "train/runs/training_run.h"

namespace foldgrad::testing {

inline std::string run_config(const std::string& model, const std::string& data, int batch) {
  return fmt::format(R"([model]
{}
[norm]
name = "un"
[norm.un]
warmup = 4
[data]
{}
[train]
steps = 3
batch = {}
lr = 1e-2
initial_lr = 1e-3
warmup = 2
[validate]
every = 3
[output]
log_every = 1
save_every = 1
keep = 99
)",
                     model, data, batch);
}

inline std::string settings_config(const std::string& model, const std::string& data, int batch) {
  return run_config(model + "\nwidth = 8\nffn_width = 8\nheads = 2\nlayers = 1", data, batch);
}

// Compares a run with the settings `base` and `change` to a run with only `base`. `differs` is the first result that
// must differ.
struct Effect {
  const char *base, *change, *differs;
};

class SettingsRun : public ProgramFiles {
 protected:
  explicit SettingsRun(const std::string& config) {
    set_threads(1);  // with more threads, such small matrix products are slower
    write_bytes(files_ / "config.toml", config);
  }

  // Trains with `settings`, which are separated by semicolons. Returns the exit code.
  int train(const std::string& out, const std::string& settings = "", const std::string& resume = "",
            bool allow_change = false) {
    TrainOptions options;
    options.allow_config_change = allow_change;
    options.config = files_ / "config.toml", options.data_directory = files_.path();
    options.out = files_ / out, options.resume = resume;
    options.settings = lines_of(settings, ';');
    std::erase(options.settings, "");
    const TrainingEnd end = train_experiment(options);
    text_ = end.text;
    return end.exit_code;
  }
  RunNumbers numbers(const std::string& settings) {
    const std::string out = fmt::format("run{}", runs_++);
    try {
      train(out, settings);
    } catch (const std::exception& e) {
      return {{"outcome", e.what()}};
    }
    return numbers_of_run(files_ / out);
  }
  std::string refusal(const std::string& settings) {
    return error_of<std::exception>([&] { train(fmt::format("run{}", runs_++), settings); });
  }

  void expect_effects(const std::vector<Effect>& effects) {
    for (const auto& [base, change, differs] : effects) {
      const std::string with = std::string(base) + ";" + change;
      if (!bases_.count(base)) bases_[base] = numbers(base);
      EXPECT_EQ(differences(bases_[base], numbers(with)).at(0), differs) << with;
    }
  }

  int runs_ = 0;
  std::map<std::string, RunNumbers> bases_;  // results of the base runs of expect_effects(), by settings
  std::string text_;                         // TrainingEnd::text of the last training
};

}  // namespace foldgrad::testing
