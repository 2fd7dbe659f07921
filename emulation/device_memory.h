// Memory of the emulated device. The host must not access it, just as it cannot access a GPU's memory.
//
// With FOLDGRAD_GUARD_DEVICE_MEMORY=1 in the environment, all device memory is in one range of addresses that is
// accessible only while a kernel or a copy runs. On any other access, the process prints a message and a stack trace,
// and ends. Each launch then makes two system calls and takes about twice as long.
#pragma once
#include <cstddef>

namespace foldgrad::emulation {

bool guards_device_memory();

// Call these two functions only if guards_device_memory() is true. The first returns null if there is no memory left.
void* allocate_device_memory(std::size_t bytes);
void release_device_memory(void* pointer) noexcept;

// Makes device memory accessible while the object lives. Objects may be nested.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace foldgrad::emulation
