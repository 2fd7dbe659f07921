// Devices in builds without nvcc: the host, and `cuda` as host memory for the emulation.

#include <cstring>
#include <stdexcept>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/emulated_devices.h"
#include "engine/cuda/no_wait.h"
#include "engine/cuda_devices.h"
#include "engine/device.h"
#include "engine/out_of_memory.h"

#ifdef FOLDGRAD_EMULATE
#include "emulation/device_memory.h"
#endif

namespace foldgrad {

#ifdef FOLDGRAD_EMULATE
bool cuda_is_emulated() { return true; }
#else
bool cuda_is_emulated() { return false; }

// There is no memory of a device that could be guarded.
namespace emulation {
namespace {
struct DeviceAccess {
  DeviceAccess() {}
};
}  // namespace
}  // namespace emulation
#endif

bool cuda_available() { return cuda_trouble(cuda_device()).empty(); }
std::string cuda_description() {
  const std::string trouble = cuda_trouble(cuda_device());
  return trouble.empty() ? "emulated on the host" : "none: " + trouble;
}

void cuda_synchronize() {
  if (cuda_available()) before_wait("cuda_synchronize()");
}

namespace memory {

void* system_allocate(Device device, std::size_t bytes) {
  if (device == Device::cuda && !cuda_available())
    throw std::runtime_error("memory: no CUDA device: " + cuda_trouble(cuda_device()));
  if (device == Device::cpu) return host_allocate(bytes);
  before_system_allocation();
#ifdef FOLDGRAD_EMULATE
  emulation::require_room(bytes);
  const bool guarded = emulation::guards_device_memory();
  void* block = guarded ? emulation::allocate_device_memory(bytes) : host_allocate(bytes);
  if (!block) throw OutOfMemory("the emulated GPU", bytes);
  emulation::take(block, bytes);
  return block;
#else
  return nullptr;
#endif
}

void system_release([[maybe_unused]] Device device, void* pointer) noexcept {
#ifdef FOLDGRAD_EMULATE
  if (device == Device::cuda) {
    emulation::give_back(pointer);
    if (emulation::guards_device_memory()) return emulation::release_device_memory(pointer);
  }
#endif
  host_release(pointer);
}

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (to == Device::cpu && from == Device::cpu) return host_copy(target, source, bytes);
  if (bytes == 0) return;
  if (to == Device::cpu) before_wait("a copy to the host");
  const emulation::DeviceAccess access;
  host_copy(target, source, bytes);
}

void zero(Device device, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cpu) return (void)std::memset(target, 0, bytes);
  const emulation::DeviceAccess access;
  std::memset(target, 0, bytes);
}

}  // namespace memory
}  // namespace foldgrad
