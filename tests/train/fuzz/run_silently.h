#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "train/commands/commands.h"

namespace foldgrad::testing {

// What is printed meanwhile goes nowhere.
class Silence {
 public:
  Silence() : before_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    ::close(nowhere);
  }
  ~Silence() {
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }

 private:
  const int before_;
};

// `foldgrad run MODEL --input INPUT --output OUTPUT`
inline void run_silently(const std::string& model, const std::string& input, const std::string& output) {
  const Silence silence;
  CLI::App program;
  const Action run = add_run(program);
  std::vector<std::string> arguments{output, "--output", input, "--input", model};  // CLI11 takes the last first
  program.parse(arguments);
  run();
}

}  // namespace foldgrad::testing
