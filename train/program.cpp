#include "train/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "engine/check.h"
#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/device.h"
#include "train/commands/commands.h"
#include "train/runs/directory.h"
#include "train/system/printable.h"
#include "train/system/signals.h"
#include "train/system/stack.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

constexpr int kMostThreads = 1024;

std::string describe(const BuildInfo& build) {
  return fmt::format("foldgrad {}\ncommit        {}\ncompiler      {}\nCUDA          {}\ninstructions  {}",
                     build.version, build.commit, build.compiler, cuda_description(), cpu_level());
}

// Checks $OMP_NUM_THREADS, since threads() accepts any number.
void check_thread_variable() {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  std::istringstream numbers(variable ? variable : "");  // a number for each level of nested regions: "4,2"
  for (std::string number; std::getline(numbers, number, ',');) {
    std::int64_t threads = 0;
    const char* end = number.data() + number.size();
    const bool read = std::from_chars(number.data(), end, threads).ptr == end;
    FOLDGRAD_CHECK(read && threads >= 1 && threads <= kMostThreads, "$OMP_NUM_THREADS must be in [1, {}], got {}",
                   kMostThreads, in_quotes(variable));
  }
}

// Returns the program's name and the commands that were recognized, such as "foldgrad data fetch".
std::string understood(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + understood(*chosen[0]));
}

struct Command {
  const char *name, *help;
  std::function<Action(CLI::App&)> add;
};

// Returns the commands in the order of --help. `arguments` are the arguments of main(); `self` is described in
// program.h.
std::vector<Command> commands(const BuildInfo& build, const std::vector<std::string>& arguments,
                              const std::vector<std::string>& self) {
  return {
      {"average", "Average the weights and normalizer statistics of several checkpoints of a run", add_average},
      {"classify", "Classify images and print the most likely classes of each one", add_classify},
      {"compare",
       "Compare runs in a table: steps, scores, skips, time, outcome, and the settings in which the runs differ",
       add_compare},
      {"config", "List all configuration keys, or check a configuration and print it with all defaults filled in",
       add_config},
      {"data", "Describe and check data sets, prepare parallel text, fetch public data, generate images", add_data},
      {"demo",
       "Train a Transformer to translate German number words in a few minutes, then evaluate, fold, verify and report "
       "it",
       [=](CLI::App& command) { return add_demo(command, build); }},
      {"doctor", "Show what this machine supports: processor, threads, libraries, CUDA, directories",
       [=](CLI::App& command) { return add_doctor(command, build); }},
      {"eval",
       "Score a model by its loss and by BLEU, chrF and exact matches (translation), top-1 and top-5 accuracy "
       "(images), or bits per character (text)",
       [=](CLI::App& command) { return add_eval(command, build); }},
      {"export", "Export a model to ONNX, for onnxruntime and other runtimes", add_export},
      {"fold",
       "Fold the normalizers of a model into its linear layers, and certify that the folded model computes the same "
       "function",
       add_fold},
      {"generate", "Generate text with a language model, token by token", add_generate},
      {"graph", "Draw the recorded forward pass of a model before and after folding", add_graph},
      {"grid", "Train every combination of listed keys and values with several seeds, and print a table",
       [=](CLI::App& command) { return add_grid(command, self); }},
      {"inspect",
       "Show the sizes, parameters and normalizer state of a model, checkpoint or run, or the tensors in a file",
       add_inspect},
      {"norms", "List the normalizers with their options and defaults", add_norms},
      {"recalibrate", "Recompute running statistics on training data, keeping the weights fixed", add_recalibrate},
      {"report", "Create a page with the curves and tables of one or more runs", add_report},
      {"run", "Compute a model's logits for the inputs in a file (docs/model_directory.md)", add_run},
      {"train", "Train a model on parallel text, images or text (docs/training.md)",
       [=](CLI::App& command) { return add_train(command, build, arguments); }},
      {"translate", "Translate text line by line from stdin to stdout", add_translate},
      {"verify",
       "Check folding, independence of other examples, gradients, windows of statistics and outliers of a model",
       add_verify},
      {"verify-traces", "Replay recorded traces of normalizers and print the largest differences (docs/traces.md)",
       add_verify_traces},
  };
}

// Returns true if --json was given to the command or its sub-command.
bool wants_json(const CLI::App& app) {
  const CLI::Option* json = app.get_option_no_throw("--json");
  return (json && json->count() > 0) ||
         std::ranges::any_of(app.get_subcommands(), [](auto* c) { return wants_json(*c); });
}

// Prints an answer. Replaces bytes that are not UTF-8 in JSON, since names of files may have such bytes.
int print(const Answer& answer, bool json) {
  using nlohmann::ordered_json;
  fmt::print("{}", json && !answer.json.is_null()
                       ? answer.json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
                       : answer.text);
  return answer.exit_code;
}

int run(int argc, char** argv, const BuildInfo& build, const std::vector<std::string>& self) {
  check_thread_variable();
  confine_signals();
  CLI::App program("Trains Transformers whose normalizers fold away.", "foldgrad");
  program.set_version_flag("--version", describe(build), "Print commit, compiler, CUDA and instruction set");
  program.require_subcommand(1);
  program.fallthrough();  // options of the program may also follow a command
  program
      .add_option_function<int>("--threads", set_threads,
                                "Number of CPU threads; default: $OMP_NUM_THREADS, or all processors")
      ->check(CLI::Range(1, kMostThreads))
      ->trigger_on_parse();
  Answer answer;
  for (const Command& c : commands(build, {argv, argv + argc}, self)) {
    CLI::App& command = *program.add_subcommand(c.name, c.help);
    command.callback([action = c.add(command), &answer] { answer = action(); });
  }
  // Shells call `complete` with the words of a command line that is being typed; the installation calls `manual`.
  if (argc > 1 && argv[1] == std::string("complete")) {
    for (const std::string& word : completions(program, {argv + 2, argv + argc})) fmt::print("{}\n", word);
    return kExitOk;
  }
  if (argc == 2 && argv[1] == std::string("manual")) return print({manual(program, build.version)}, false);
  // CLI11 expects the words in reverse order.
  std::vector<std::string> given(std::reverse_iterator(argv + argc), std::reverse_iterator(argv + 1));
  if (!given.empty() && given.back() == "help") {  // `help COMMAND` is `COMMAND --help`
    given.pop_back();
    const auto named = [&](const CLI::App* command) { return command->check_name(given.back()); };
    if (given.empty() || std::ranges::any_of(program.get_subcommands({}), named)) given.insert(given.begin(), "--help");
  }
  try {
    program.parse(std::move(given));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e);  // --help, --version
    say("error: {}\n", usage_error(program, e));
    say("See {} --help.\n", understood(program));
    return kExitUsage;
  }
  return print(answer, wants_json(program));
}

}  // namespace

int run_command_line(int argc, char** argv, const BuildInfo& build, const std::vector<std::string>& self) {
  open_standard_streams();
  return with_enough_stack(
      [&] { return finish_stdout(guarded([&]() -> int { return run(argc, argv, build, self); })); });
}

}  // namespace foldgrad
