// Devices of the emulation, or none at all.
#include <mutex>
#include <unordered_map>

#include "engine/cuda/device_guard.h"
#include "engine/cuda/emulated_devices.h"
#include "engine/out_of_memory.h"

namespace foldgrad {

#ifdef FOLDGRAD_EMULATE
namespace emulation {
namespace {

struct Block {
  int index;
  std::size_t bytes;
};
std::mutex mutex;
Devices pretended = sound_devices();
std::unordered_map<void*, Block> blocks;
std::size_t taken[kMostCudaDevices];

}  // namespace

Devices sound_devices() { return {.machine = {.devices = 2}, .bytes_each = SIZE_MAX}; }

void set_devices(const Devices& devices) {
  const std::lock_guard lock(mutex);
  pretended = devices;
}

std::size_t bytes_on(int index) {
  const std::lock_guard lock(mutex);
  return taken[index];
}

void take(void* block, std::size_t bytes) {
  const CudaDeviceGuard guard;
  const std::lock_guard lock(mutex);
  blocks[block] = {current_cuda_device(), bytes};
  taken[current_cuda_device()] += bytes;
}

void require_room(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (bytes > pretended.bytes_each - taken[cuda_device()]) throw OutOfMemory("the GPU", bytes);
}

void give_back(void* block) noexcept {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(block);
  taken[found->second.index] -= found->second.bytes;
  blocks.erase(found);
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
int cuda_devices() { return 0; }
std::string cuda_trouble(int) { return "this program was built without it, with FOLDGRAD_CUDA=OFF"; }
#endif

namespace {
thread_local int current = 0;
}
int current_cuda_device() { return current; }
void set_current_cuda_device(int index) { current = index; }

}  // namespace foldgrad
