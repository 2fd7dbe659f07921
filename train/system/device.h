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

// A value of --device: "auto", "cpu", "cuda", "cuda:N", "emulated" or "emulated:N". The last two run CUDA kernels on
// the host.
struct DeviceName {
  std::string kind;  // "auto", "cpu", "cuda" or "emulated"
  int index = 0;
};
// Returns no value for any other text.
std::optional<DeviceName> parse_device(const std::string& text);

// The GPU that "auto" chooses among `devices` GPUs: the first usable one. trouble(i) returns the reason why GPU i
// cannot be used, or an empty text. If no GPU is usable, the result contains the reason for GPU 0.
struct AutomaticDevice {
  std::optional<int> index;
  std::string trouble;
};
AutomaticDevice automatic_device(int devices, const std::function<std::string(int)>& trouble);

// Chooses the device with this name, which parse_device() must accept, for the rest of the program (use_cuda_device).
// "auto" chooses a usable GPU, never the emulation; if there are GPUs but none is usable, warns and chooses the CPU.
// Throws DeviceError if any other device is missing or unusable.
Device require_device(const std::string& name);
// Returns the name of the device chosen by require_device(): "cpu", "cuda", "cuda:1", "emulated".
std::string name_of_chosen(Device device);

}  // namespace foldgrad
