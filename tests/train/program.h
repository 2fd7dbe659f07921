// The program `foldgrad`, run as a user runs it.
#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {

// $FOLDGRAD_PROGRAM, or the program of this build.
inline std::string program() {
  const char* given = std::getenv("FOLDGRAD_PROGRAM");
  return given ? given : FOLDGRAD_PROGRAM;
}

// What hides GPUs from a command that is given no device: it computes on the CPU in tests, whatever the machine has.
inline std::string without_gpus(const std::string& arguments) {
  const bool told = arguments.find("--device") != std::string::npos || arguments.rfind("--", 0) == 0;
  return told ? "" : "CUDA_VISIBLE_DEVICES= ";
}

struct ProgramResult {
  int exit_code;  // -1 when a signal ended it
  std::string out, err;
};

// `arguments` as in a shell, in the root of the sources.
inline ProgramResult run_program(const std::string& arguments) {
  const TemporaryDirectory directory;
  const std::string out = directory / "out", err = directory / "err";
  const int status = std::system(("cd '" FOLDGRAD_SOURCE_DIR "' && " + without_gpus(arguments) + "'" + program() +
                                  "' " + arguments + " >" + out + " 2>" + err)
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(out), read_bytes(err)};
}

}  // namespace foldgrad::testing
