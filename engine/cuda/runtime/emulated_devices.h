// The GPUs that the emulation pretends to have. Tests can change them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cuda/runtime/trouble.h"

namespace foldgrad::emulation {

// The emulated devices. By default there are two working devices, each with as much memory as the host.
struct Devices {
  CudaMachine machine = {.devices = 2};
  std::size_t bytes_each = SIZE_MAX;  // memory per device; allocations beyond it fail
};

// Replaces the emulated devices. Call it from one thread, while no tensor is on a device.
void set_devices(const Devices& devices);
// Returns the bytes in use on one device.
std::size_t bytes_on(int index);

}  // namespace foldgrad::emulation
