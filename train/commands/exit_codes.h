// How the program `foldgrad` ends.
#pragma once
#include <functional>
#include <stdexcept>

#include "engine/device.h"

namespace foldgrad {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitData = 3,
  kExitCheckpoint = 4,  // cannot be loaded
  kExitDiverged = 5,    // a number is no longer finite: in training with train.on_nan = "abort", or anywhere else
  kExitDevice = 6,
  kExitInterrupted = 130,  // after saving
};

// The device that was asked for is not here.
class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "cpu", "cuda", or "emulated": CUDA kernels on the host. Throws DeviceError when this program or machine lacks it.
Device require_device(const std::string& name);

// Runs a command. What it throws becomes "error: MESSAGE" on stderr and the exit code that the kind of exception has;
// commands need no handlers of their own, since main() calls them through this.
int guarded(const std::function<int()>& command);

}  // namespace foldgrad
