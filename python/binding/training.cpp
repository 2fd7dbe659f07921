#include <nanobind/stl/pair.h>

#include "engine/files/atomic_file.h"
#include "engine/files/file.h"
#include "python/binding/native.h"
#include "train/program.h"
#include "train/reports/recordings.h"
#include "train/reports/report.h"
#include "train/runs/training_run.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad::python {
namespace {

// Handles pending signals. Returns true if one of them raised a Python exception, such as KeyboardInterrupt.
bool interrupted(const sigset_t& before) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, &before, &blocked);
  const nb::gil_scoped_acquire held;
  const bool raised = PyErr_CheckSignals() != 0;
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  return raised;
}

using OnEvent = nb::typed<nb::callable, nb::object(Dict)>;

// Trains a model. Returns the exit code, and the text that `foldgrad train` prints at the end.
std::pair<int, std::string> run_training(TrainOptions options, const OnEvent& on_event) {
  std::optional<nb::python_error> raised;
  options.on_event = [&](const nlohmann::ordered_json& event) {
    if (raised) return;
    const nb::gil_scoped_acquire held;
    try {
      on_event(parsed(event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
    } catch (nb::python_error& e) {
      raised.emplace(std::move(e));
    }
  };
  const WithoutPython released;
  options.stop = [&] {
    if (!raised && interrupted(released.blocked.before())) {
      const nb::gil_scoped_acquire held;
      raised.emplace();
    }
    return raised.has_value();
  };
  const TrainingEnd end = train_experiment(options);
  const nb::gil_scoped_acquire held;
  // After Ctrl-C, the caller itself raises KeyboardInterrupt with the step from which training can continue.
  if (raised && !(end.exit_code == kExitInterrupted && raised->matches(PyExc_KeyboardInterrupt))) throw *raised;
  return {end.exit_code, end.text};
}

void add_runs(nb::module_& m) {
  m.def(
      "write_report",
      [](const std::string& run, const std::string& path) {
        write_file_atomically(path, report_html({read_run_log(run)}));
      },
      "run"_a, "path"_a, Native(), "Writes the report of a run.");
  m.def(
      "recorded_sites",
      [](const std::string& run) {
        const std::vector<RecordedPhase> phases = recorded_phases(run);
        if (phases.empty())
          throw FileError(run, "has no recordings; train the run with record.from, for example [100, -200]");
        std::vector<std::string> sites;
        for (const SiteRecording& s : phases[0].recording.sites) sites.push_back(s.site);
        return sites;
      },
      "run"_a, Native(),
      "Returns the sites of a run's recordings in the order of the forward pass. Throws FileError if there is no "
      "recording, or if a recording is of a different model.");
}

}  // namespace

void add_training(nb::module_& m, const BuildInfo& build) {
  add_runs(m);
  m.def(
      "run_training",
      [build](const std::string& config, const std::string& out, const std::vector<std::string>& settings,
              const std::string& data_directory, const std::string& resume, const std::string& device,
              const std::vector<std::string>& command, const OnEvent& on_event) {
        return run_training({.config = config,
                             .settings = settings,
                             .data_directory = data_directory,
                             .out = out,
                             .resume = resume,
                             .device = device,
                             .build = build,
                             .command = command},
                            on_event);
      },
      nb::kw_only(), "config"_a, "out"_a, "settings"_a, "data_directory"_a, "resume"_a, "device"_a, "command"_a,
      "on_event"_a, "Implements train().");
  m.def(
      "run_command_line",
      [build](const std::vector<std::string>& arguments, const std::vector<std::string>& self) {
        std::vector<std::string> words = arguments;
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const nb::gil_scoped_release released;
        return run_command_line(int(words.size()), argv.data(), build, self);
      },
      "arguments"_a, "self"_a,
      "Runs the program `foldgrad` and returns its exit code. `self` is the command line that starts the program "
      "again.");
  m.def(
      "send_messages_to",
      [](const nb::object& logger) {
        if (logger.is_none()) return set_message_sink(nullptr);
        set_message_sink([kept = kept(logger)](std::string_view text) {
          const nb::gil_scoped_acquire held;
          try {
            (*kept)(nb::str(text.data(), text.size()));
          } catch (nb::python_error& e) {
            e.discard_as_unraisable("foldgrad");
          }
        });
      },
      "logger"_a.none(), "Sends the engine's messages to a function, or to stderr if it is None.");
}

}  // namespace foldgrad::python
