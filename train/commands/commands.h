// The sub-commands of `foldgrad`; train/program.cpp has the table of their names.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/system/exit_code.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace foldgrad {

struct BuildInfo;

// The result of a command. The program prints it as text, or as JSON if --json was given. A command that prints while
// it runs leaves `text` and `json` empty.
struct Answer {
  std::string text = {};
  nlohmann::ordered_json json = {};
  int exit_code = kExitOk;
};

// A command whose options have been parsed.
using Action = std::function<Answer()>;

// Each function adds its options to a command and returns the action that uses them. If the command has --json, the
// answer has JSON.
Action add_average(CLI::App& command);
Action add_classify(CLI::App& command);
Action add_compare(CLI::App& command);
Action add_config(CLI::App& command);
Action add_data(CLI::App& command);
Action add_demo(CLI::App& command, const BuildInfo& build);
extern const char* const kDemoConfig;  // configs/numbers.toml, embedded by the build
Action add_doctor(CLI::App& command, const BuildInfo& build);
Action add_eval(CLI::App& command, const BuildInfo& build);
Action add_export(CLI::App& command);
Action add_fold(CLI::App& command);
Action add_generate(CLI::App& command);
Action add_graph(CLI::App& command);
Action add_grid(CLI::App& command, const std::vector<std::string>& self);
Action add_inspect(CLI::App& command);
Action add_norms(CLI::App& command);
Action add_recalibrate(CLI::App& command);
Action add_report(CLI::App& command);
Action add_run(CLI::App& command);
// `arguments` are the arguments of main(); the run records them in command.txt.
Action add_train(CLI::App& command, const BuildInfo& build, const std::vector<std::string>& arguments);
Action add_translate(CLI::App& command);
Action add_verify(CLI::App& command);
Action add_verify_traces(CLI::App& command);

// Runs a command. Turns an exception into "error: MESSAGE" on stderr and the exit code of its type. Commands need no
// handlers, since run_command_line() calls them through this function.
int guarded(const std::function<int()>& command);

// Returns a message that names the first option or command that `program` did not recognize and suggests the nearest
// one that exists. If `program` recognized every option and command, returns the message of `error`.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace foldgrad
