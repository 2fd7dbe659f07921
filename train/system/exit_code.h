// Exit codes of the program `foldgrad`.
#pragma once

namespace foldgrad {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitData = 3,
  kExitCheckpoint = 4,  // a model or checkpoint cannot be loaded
  kExitDiverged = 5,    // a number is no longer finite: in training with train.on_nan = "abort", or in another command
  kExitDevice = 6,
  kExitInterrupted = 130,  // a signal interrupted the command; training saves a checkpoint first
  kExitBrokenPipe = 141,   // the reader of stdout is gone, as with `| head`; no message is printed
};

}  // namespace foldgrad
