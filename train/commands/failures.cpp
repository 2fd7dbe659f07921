// Turns errors of commands, in one process or several, and of command lines into messages and exit codes.
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <new>
#include <system_error>
#include <thread>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "engine/memory.h"
#include "engine/parallel/communicator.h"
#include "models/options/nearest_name.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/commands/command.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/system/device.h"
#include "train/system/launcher.h"
#include "train/system/signals.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

// Called before an error is printed.
std::function<void()> before_error;

int refuse(const std::string& what, ExitCode code) {
  if (before_error) before_error();
  say("error: {}\n", what);
  return code;
}

}  // namespace

int guarded(const std::function<int()>& command) try { return command(); } catch (const Diverged& e) {
  return refuse(fmt::format("diverged: {}", e.what()), kExitDiverged);
} catch (const NonFiniteError& e) {
  return refuse(e.what(), kExitDiverged);
} catch (const ConfigError& e) {
  return refuse(e.what(), kExitUsage);
} catch (const std::invalid_argument& e) {  // for example contradicting keys, or sentences too long for the model
  return refuse(e.what(), kExitUsage);
} catch (const CheckpointError& e) {
  return refuse(e.what(), kExitCheckpoint);
} catch (const FileError& e) {
  return e.error() == EPIPE ? kExitBrokenPipe : refuse(e.what(), kExitData);
} catch (const CommunicationError& e) {
  return refuse(e.what(), kExitDevice);
} catch (const DeviceError& e) {
  return refuse(e.what(), kExitDevice);
} catch (const OutOfMemory& e) {
  return refuse(e.what(), kExitDevice);
} catch (const std::bad_alloc&) {
  return refuse("memory ran out", kExitDevice);
} catch (const std::filesystem::filesystem_error& e) {
  const std::string path = e.path1().empty() ? "the current directory" : e.path1().string();
  return refuse(FileError(path, "cannot be used", e.code().value()).what(), kExitData);
} catch (const std::system_error& e) {
  if (std::ferror(stdout)) return report_stdout_error(e.code().value());  // thrown by fmt::print
  return refuse(fmt::format("the operating system cannot provide a thread or a lock: {}", e.code().message()),
                kExitDevice);
} catch (const std::exception& e) {
  return refuse(e.what(), kExitCheckFailed);
}

Answer launched(std::string& device, double timeout, const std::function<Answer(Processes*)>& action) {
  const Launch launch = find_launch();
  const std::unique_ptr<Processes> processes = join(launch, timeout);
  if (!processes) return action(nullptr);
  device = device_of(launch, device);
  if (launch.rank > 0) {
    begin_lines_with(fmt::format("[process {} on {}] ", launch.rank, host_name()));
    // Waits for process 0. If it has the same error, it prints (and may log) the error once and ends all processes.
    before_error = [] {
      end_when_interrupted();
      std::this_thread::sleep_for(std::chrono::seconds(2));
    };
  }
  // An error here ends the other processes, which may be waiting for this one.
  Answer answer;
  const int code = guarded([&] {
    answer = action(processes.get());
    return answer.exit_code;
  });
  if (code != kExitOk && code != kExitInterrupted) {
    end_when_interrupted();  // MPI's signal must end this process, too
    processes->abort(code);
  }
  return launch.rank == 0 ? answer : Answer{.exit_code = code};
}

// Former commands and options, and the modules of the Python package that replace them.
static const std::map<std::string, std::string> kMoved = {{"analyze", "analyze"},
                                                          {"--tensorboard", "tensorboard DIRECTORY RUN"}};

std::string usage_error(const CLI::App& program, const CLI::ParseError& error) {
  std::vector<std::string> options;
  const CLI::App* command = &program;  // the last command that was recognized
  for (;;) {
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    const std::vector<CLI::App*> chosen = command->get_subcommands();
    if (chosen.empty()) break;
    command = chosen[0];
  }
  const std::vector<std::string> left_over = program.remaining(/*recurse=*/true);
  for (const std::string& word : left_over) {
    const std::string name = word.substr(0, word.find('='));
    if (const auto moved = kMoved.find(name); moved != kMoved.end())
      return fmt::format("{} is in the Python package: pip install . and python3 -m foldgrad.{} (docs/python.md)", name,
                         moved->second);
    if (name.size() <= 2 || !name.starts_with("--") || contains(options, name)) continue;
    const std::string key = contains(options, "--set") ? key_named(name.substr(2)) : "";
    const std::string as_key = key.empty() ? "" : fmt::format("; to set a key, use --set {}=VALUE", key);
    return fmt::format("there is no option {}{}", name, did_you_mean(name, options, "", as_key));
  }
  std::vector<std::string> commands;
  for (const CLI::App* known : command->get_subcommands({})) commands.push_back(known->get_name());
  if (!commands.empty() && !left_over.empty() && !left_over[0].starts_with('-'))
    return fmt::format("there is no command \"{}\"{}", left_over[0], did_you_mean(left_over[0], commands, "\""));
  if (error.get_exit_code() != int(CLI::ExitCodes::ExtrasError)) return error.what();
  return fmt::format("{}: unexpected argument", fmt::join(left_over, " "));
}

}  // namespace foldgrad
