// Devices in builds without nvcc: the host, and `cuda` as host memory for the emulation.

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "engine/cpu/host_memory.h"
#include "engine/device.h"
#include "engine/host_reads.h"

namespace foldgrad {

#ifdef FOLDGRAD_EMULATE
bool cuda_available() { return true; }
bool cuda_is_emulated() { return true; }
std::string cuda_description() { return "emulated on the host"; }
#else
bool cuda_available() { return false; }
bool cuda_is_emulated() { return false; }
std::string cuda_description() { return "none: built with FOLDGRAD_CUDA=OFF"; }
#endif

void cuda_synchronize() {}

namespace memory {

void* system_allocate(Device device, std::size_t bytes) {
  if (device == Device::cuda && !cuda_available())
    throw std::runtime_error("memory: no CUDA device: " + cuda_description());
  return host_allocate(bytes);
}

void system_release(Device, void* pointer) noexcept { host_release(pointer); }

namespace {
std::atomic<std::int64_t> reads{0};
}
std::int64_t host_reads() { return reads; }

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (from == Device::cuda && to == Device::cpu) ++reads;
  host_copy(target, source, bytes);
}

void zero(Device, void* target, std::size_t bytes) {
  if (bytes) std::memset(target, 0, bytes);
}

}  // namespace memory
}  // namespace foldgrad
