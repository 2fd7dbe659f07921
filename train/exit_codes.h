// How the program `foldgrad` ends.
#pragma once

namespace foldgrad {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitData = 3,
  kExitDevice = 6,
};

}  // namespace foldgrad
