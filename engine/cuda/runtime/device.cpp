// Implements the parts of device.h that are the same in every build.
#include <algorithm>
#include <atomic>

#include "engine/check.h"
#include "engine/cuda/runtime/device_guard.h"

namespace foldgrad {
namespace {
std::atomic<int> chosen{0};
std::atomic<std::int64_t> waits{0};
}  // namespace

void use_cuda_device(int index) {
  const int count = std::min(cuda_devices(), kMostCudaDevices);
  FOLDGRAD_CHECK(index >= 0 && index < count, "cuda: the device number must be in [0, {}], got {}", count - 1, index);
  chosen = index;
}

int cuda_device() { return chosen; }
bool cuda_available() { return cuda_trouble(chosen).empty(); }

std::int64_t host_waits() { return waits; }
void count_host_wait() { ++waits; }

}  // namespace foldgrad
