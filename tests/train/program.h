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

struct ProgramResult {
  int exit_code;  // -1 when a signal ended it
  std::string out, err;
};

// `arguments` as in a shell, in the root of the sources.
inline ProgramResult run_program(const std::string& arguments) {
  const TemporaryDirectory directory;
  const std::string out = directory / "out", err = directory / "err";
  const int status = std::system(
      ("cd '" FOLDGRAD_SOURCE_DIR "' && '" + program() + "' " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(out), read_bytes(err)};
}

}  // namespace foldgrad::testing
