// Implements devices in builds without nvcc: the host and, under emulation, several simulated GPUs whose memory is host
// memory.
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/cuda/runtime/emulated_devices.h"
#include "engine/memory.h"

#ifdef FOLDGRAD_EMULATE
#include "emulation/device_memory.h"
#endif

namespace foldgrad {

#ifdef FOLDGRAD_EMULATE
bool cuda_is_emulated() { return true; }

namespace emulation {
namespace {

struct Block {
  int index;
  std::size_t bytes;
};
std::mutex mutex;
Devices pretended;
std::unordered_map<void*, Block> blocks;
std::size_t taken[kMostCudaDevices];

void* allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const int index = cuda_device();
  if (bytes > pretended.bytes_each - taken[index]) throw OutOfMemory("the GPU", bytes);
  void* block = guards_device_memory() ? allocate_device_memory(bytes) : memory::host_allocate(bytes);
  if (!block) throw OutOfMemory("the emulated GPU", bytes);
  blocks[block] = {index, bytes};
  taken[index] += bytes;
  return block;
}

void release(void* block) noexcept {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(block);
  taken[found->second.index] -= found->second.bytes;
  blocks.erase(found);
  guards_device_memory() ? release_device_memory(block) : memory::host_release(block);
}

}  // namespace

void set_devices(const Devices& devices) {
  const std::lock_guard lock(mutex);
  pretended = devices;
}

std::size_t bytes_on(int index) {
  const std::lock_guard lock(mutex);
  return taken[index];
}

}  // namespace emulation

int cuda_devices() {
  const std::lock_guard lock(emulation::mutex);
  return emulation::pretended.machine.devices;
}

std::string cuda_trouble(int index) {
  const std::lock_guard lock(emulation::mutex);
  return explain(emulation::pretended.machine, index);
}
#else
bool cuda_is_emulated() { return false; }
int cuda_devices() { return 0; }
std::string cuda_trouble(int) {
  return "this program was built without CUDA; build it on a machine with nvcc and a GPU, or with -DFOLDGRAD_CUDA=ON";
}

// These functions are never called, because there is no device.
namespace emulation {
namespace {
void* allocate(std::size_t) { return nullptr; }
void release(void*) noexcept {}
struct DeviceAccess {
  DeviceAccess() {}
};
}  // namespace
}  // namespace emulation
#endif

namespace {
thread_local int current = 0;
}
int current_cuda_device() { return current; }
void set_current_cuda_device(int index) { current = index; }
void restore_cuda_device(int index) noexcept { current = index; }

std::string cuda_description() {
  const std::string trouble = cuda_trouble(cuda_device());
  return trouble.empty() ? "emulated on the host" : "none: " + trouble;
}

void cuda_synchronize() {
  if (cuda_available()) count_host_wait();
}

namespace memory {

void* system_allocate(Device device, std::size_t bytes) {
  if (device == Device::cpu) return host_allocate(bytes);
  if (!cuda_available()) throw std::runtime_error("memory: no CUDA device: " + cuda_trouble(cuda_device()));
  return emulation::allocate(bytes);
}

void system_release(Device device, void* pointer) noexcept {
  device == Device::cpu ? host_release(pointer) : emulation::release(pointer);
}

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (to == Device::cpu && from == Device::cpu) return host_copy(target, source, bytes);
  if (bytes == 0) return;
  if (to == Device::cpu) count_host_wait();
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
