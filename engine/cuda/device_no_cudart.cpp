// Devices in builds without nvcc: the host, and `cuda` as host memory for the emulation.

#include <cstring>
#include <stdexcept>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/emulated_devices.h"
#include "engine/cuda/no_wait.h"
#include "engine/cuda_devices.h"
#include "engine/device.h"

namespace foldgrad {

#ifdef FOLDGRAD_EMULATE
bool cuda_is_emulated() { return true; }
#else
bool cuda_is_emulated() { return false; }
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
    throw std::runtime_error("memory: no CUDA device: " + cuda_description());
  if (device == Device::cpu) return host_allocate(bytes);
  before_system_allocation();
#ifdef FOLDGRAD_EMULATE
  emulation::require_room(bytes);
  void* block = host_allocate(bytes);
  emulation::take(block, bytes);
  return block;
#else
  return nullptr;
#endif
}

void system_release([[maybe_unused]] Device device, void* pointer) noexcept {
#ifdef FOLDGRAD_EMULATE
  if (device == Device::cuda) emulation::give_back(pointer);
#endif
  host_release(pointer);
}

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (bytes > 0 && from == Device::cuda && to == Device::cpu) before_wait("a copy to the host");
  host_copy(target, source, bytes);
}

void zero(Device, void* target, std::size_t bytes) {
  if (bytes) std::memset(target, 0, bytes);
}

}  // namespace memory
}  // namespace foldgrad
