// How the program `foldgrad` ends.
#pragma once

namespace foldgrad {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitData = 3,
  kExitCheckpoint = 4,  // cannot be loaded
  kExitDiverged = 5,    // a loss that is not finite, with train.on_nan = "abort"
  kExitDevice = 6,
  kExitInterrupted = 130,  // after saving
};

}  // namespace foldgrad
