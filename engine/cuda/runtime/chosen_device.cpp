#include <algorithm>
#include <atomic>

#include "engine/check.h"
#include "engine/cuda_devices.h"

namespace foldgrad {
namespace {
std::atomic<int> chosen{0};
}

void use_cuda_device(int index) {
  const int count = std::min(cuda_devices(), kMostCudaDevices);
  FOLDGRAD_CHECK(index >= 0 && index < count, "cuda: devices are 0 to {}, got {}", count - 1, index);
  chosen = index;
}

int cuda_device() { return chosen; }

}  // namespace foldgrad
