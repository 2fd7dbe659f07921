// Memory of the emulated device that the host must not touch, as it cannot touch a GPU's.
//
// With FOLDGRAD_GUARD_DEVICE_MEMORY=1 in the environment all memory of the device lies in one range of addresses,
// which can be reached while a kernel or a copy runs and not otherwise. Whoever touches it outside ends the process
// with a message and the calls that led there. Two system calls a launch: about twice as slow.
#pragma once
#include <cstddef>

namespace foldgrad::emulation {

bool guards_device_memory();

// Returns null when there is no room. Both may be called only where memory is guarded.
void* allocate_device_memory(std::size_t bytes);
void release_device_memory(void* pointer) noexcept;

// Access to the memory while one lives. May be nested.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace foldgrad::emulation
