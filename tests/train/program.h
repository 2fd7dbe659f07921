// Runs the program `foldgrad` as a user would.
#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/harness/file_test.h"

namespace foldgrad::testing {

// Returns the path of the program: $FOLDGRAD_PROGRAM if it is set, and otherwise the program of this build.
inline std::string program() {
  const char* given = std::getenv("FOLDGRAD_PROGRAM");
  return given ? given : FOLDGRAD_PROGRAM;
}

// Returns a shell prefix that hides GPUs, so that commands run on the CPU on every machine. The prefix is empty if the
// arguments have --device, or begin with an option such as --help.
inline std::string without_gpus(const std::string& arguments) {
  const bool told = arguments.find("--device") != std::string::npos || arguments.rfind("--", 0) == 0;
  return told ? "" : "CUDA_VISIBLE_DEVICES= ";
}

struct ProgramResult {
  int exit_code;  // -1 if a signal ended the program
  std::string out, err;
};

// Runs a shell command: `first`, followed by the program and its `arguments`.
inline ProgramResult run_after(const std::string& first, const std::string& arguments) {
  const TemporaryDirectory directory;
  const std::string out = directory / "out", err = directory / "err";
  const int status = std::system((first + "'" + program() + "' " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(out), read_bytes(err)};
}

// Runs the program in the root of the source tree.
inline ProgramResult run_program(const std::string& arguments) {
  return run_after("cd '" FOLDGRAD_SOURCE_DIR "' && " + without_gpus(arguments), arguments);
}

// Checks the exit code and the error message. If `said` begins with "error: ", the message must begin with `said`;
// otherwise it must contain `said`.
inline void expect_failure(const ProgramResult& r, int exit_code, const std::string& said) {
  EXPECT_EQ(r.exit_code, exit_code) << r.err;
  EXPECT_TRUE(said.starts_with("error: ") ? begins(r.err, said) : contains(r.err, said));
}

// Returns the names of the commands that --help lists, one per line.
inline std::set<std::string> commands_of_the_program() {
  std::set<std::string> commands;
  const std::string help = run_program("--help").out;
  for (const std::string& line : lines_of(help.substr(help.find("Subcommands:\n") + 13)))
    if (line.size() > 2 && line.starts_with("  ") && line[2] != ' ')
      commands.insert(line.substr(2, line.find_first_of(", ", 2) - 2));  // takes "fold" from "fold, fuse"
  return commands;
}

// Returns the events of one kind in a run's log.jsonl.
inline std::vector<nlohmann::json> events_of(const std::string& run, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const std::string& line : lines_of(read_bytes(run + "/log.jsonl")))
    if (const auto event = nlohmann::json::parse(line); event.at("event") == kind) found.push_back(event);
  return found;
}

// Runs commands on files in a temporary directory. In arguments and messages, @ stands for its path with the final
// slash.
class ProgramFiles : public FileTest {
 protected:
  std::string filled(std::string text) const {
    for (std::size_t at = 0; (at = text.find('@', at)) != std::string::npos;) text.replace(at, 1, files_.path() + "/");
    return text;
  }
  ProgramResult run(const std::string& arguments) const { return run_program(filled(arguments)); }
  // output() and parsed() return the output of a command, which must succeed, as text and as JSON.
  std::string output(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.exit_code, 0) << arguments << "\n" << r.err;
    return r.out;
  }
  nlohmann::json parsed(const std::string& arguments) const { return nlohmann::json::parse(output(arguments)); }
  void expect_error(const std::string& arguments, int exit_code, const std::string& message) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.exit_code, exit_code) << arguments;
    EXPECT_EQ(r.err, "error: " + filled(message) + "\n") << arguments;
  }
  std::vector<nlohmann::json> events(const std::string& run, const std::string& kind) const {
    return events_of(files_ / run, kind);
  }
  // Returns the events without the fields that depend on the clock.
  std::vector<nlohmann::json> timeless_events(const std::string& run, const std::string& kind) const {
    std::vector<nlohmann::json> all = events(run, kind);
    for (nlohmann::json& event : all)
      std::erase_if(event.get_ref<nlohmann::json::object_t&>(), [](const auto& member) {
        return member.first == "time" || member.first == "seconds" || member.first.ends_with("_per_second");
      });
    return all;
  }
  void expect_same_numbers(const std::string& run, const std::string& other, const std::string& step) const {
    for (const char* file : {"model", "optimizer", "norm_state"}) {
      const std::string name = "/checkpoints/" + step + "/" + file + ".safetensors";
      EXPECT_TRUE(bytes(run + name) == bytes(other + name)) << run << " and " << other << ": " << file;
    }
  }
};

}  // namespace foldgrad::testing
