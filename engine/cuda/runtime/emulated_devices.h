// The machine that the emulation pretends to be: what tests change of it.
#pragma once
#include <cstddef>

#include "engine/cuda/runtime/trouble.h"

namespace foldgrad::emulation {

struct Devices {
  CudaMachine machine;
  std::size_t bytes_each;  // of memory; what is asked for beyond that is refused
};

// Two devices without trouble, and as much memory as the host has.
Devices sound_devices();
// From one thread, while no tensor is on a device.
void set_devices(const Devices& devices);
// Returns the bytes allocated on one device and not yet freed.
std::size_t bytes_on(int index);

}  // namespace foldgrad::emulation
