#include "train/system/device.h"

#include <fmt/format.h>

namespace foldgrad {

Device require_device(const std::string& name) {
  if (name == "cpu") return Device::cpu;
  if (cuda_available() && cuda_is_emulated() == (name == "emulated")) return Device::cuda;
  throw DeviceError(fmt::format("--device {}: not available; CUDA: {}", name, cuda_description()));
}

}  // namespace foldgrad
