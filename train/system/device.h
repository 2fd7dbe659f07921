// The device that a command line names.
#pragma once
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "engine/device.h"

namespace foldgrad {

// The error for a device that is not available.
class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value of --device: "auto", "cpu", "cuda", "cuda:N", or "emulated" and "emulated:N", CUDA kernels on the host.
struct DeviceName {
  std::string kind;  // "auto", "cpu", "cuda" or "emulated"
  int index = 0;
};
// Returns nothing for other texts.
std::optional<DeviceName> parse_device(const std::string& text);

// The choice of "auto" if the driver shows `devices` GPUs: the first usable one. If none is usable, `trouble` has the
// fault of the first GPU.
struct AutomaticDevice {
  std::optional<int> index;
  std::string trouble;
};
AutomaticDevice automatic_device(int devices, const std::function<std::string(int)>& trouble);

// Chooses the device with a name that parse_device() accepts, for the rest of the program (use_cuda_device). "auto"
// chooses a GPU, never the emulation. If all GPUs are unusable, it says why and chooses the CPU. Throws DeviceError for
// another device that this program or machine lacks or cannot use.
Device require_device(const std::string& name);
// Returns the name of the device chosen by require_device(): "cpu", "cuda", "cuda:1", "emulated".
std::string name_of_chosen(Device device);

}  // namespace foldgrad
