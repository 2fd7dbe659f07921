// The machine that the emulation pretends to be: what tests change of it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cuda/runtime/trouble.h"

namespace foldgrad::emulation {

// The devices: at first two without trouble, with as much memory as the host has.
struct Devices {
  CudaMachine machine = {.devices = 2};
  std::size_t bytes_each = SIZE_MAX;  // of memory; what is asked for beyond that is refused
};

// Must be called from one thread, while no tensor is on a device.
void set_devices(const Devices& devices);
// Returns the bytes allocated on one device and not yet freed.
std::size_t bytes_on(int index);

}  // namespace foldgrad::emulation
