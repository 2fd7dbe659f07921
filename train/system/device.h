// The device that a command line names.
#pragma once
#include <stdexcept>
#include <string>

#include "engine/device.h"

namespace foldgrad {

// The device that was asked for is not available.
class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "cpu", "cuda", or "emulated": CUDA kernels on the host. Throws DeviceError when this program or machine lacks it.
Device require_device(const std::string& name);

}  // namespace foldgrad
