// Devices in builds with nvcc. A binary linked with CUDA also starts without a driver: then only the host exists.
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/launch.h"
#include "engine/device.h"
#include "engine/host_reads.h"
#include "engine/out_of_memory.h"

namespace foldgrad {
namespace {

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // forget it: after an allocation that the cache makes good, the next launch would report it
  throw std::runtime_error(std::string("cuda: ") + call + " failed: " + cudaGetErrorString(error));
}

std::string why_unavailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count == 0 ? "the driver reports no device" : "";
}

}  // namespace

bool cuda_available() {
  static const bool available = why_unavailable().empty();
  return available;
}

bool cuda_is_emulated() { return false; }

std::string cuda_description() {
  if (!cuda_available()) return "none: " + why_unavailable();
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  char text[400];
  std::snprintf(text, sizeof text, "%s, compute capability %d.%d, %.1f GiB", properties.name, properties.major,
                properties.minor, double(properties.totalGlobalMem) / (1 << 30));
  return text;
}

// Not the default stream: that one cannot be captured into a CUDA graph.
cudaStream_t cuda_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t created;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return created;
  }();
  return stream;
}

void cuda_synchronize() {
  if (cuda_available()) check(cudaStreamSynchronize(cuda_stream()), "a kernel or copy before cudaStreamSynchronize");
}

namespace memory {

void* system_allocate(Device device, std::size_t bytes) {
  if (device == Device::cpu) return host_allocate(bytes);
  if (!cuda_available()) throw std::runtime_error("memory: no CUDA device: " + cuda_description());
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // or the next launch would report it again
    throw OutOfMemory("the GPU", bytes);
  }
  check(error, "cudaMalloc");
  return pointer;
}

void system_release(Device device, void* pointer) noexcept {
  if (device == Device::cpu) return host_release(pointer);
  cudaFree(pointer);  // it fails only while the process ends, when the driver has gone before us
}

namespace {
std::atomic<std::int64_t> reads{0};
}
std::int64_t host_reads() { return reads; }

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  if (from == Device::cuda && to == Device::cpu) ++reads;
  if (to == Device::cpu && from == Device::cpu) {
    host_copy(target, source, bytes);
    return;
  }
  check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, cuda_stream()), "cudaMemcpyAsync");
  // Pageable host memory may be reused by the caller as soon as this returns.
  if (to == Device::cpu || from == Device::cpu) cuda_synchronize();
}

void zero(Device device, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cpu)
    std::memset(target, 0, bytes);
  else
    check(cudaMemsetAsync(target, 0, bytes, cuda_stream()), "cudaMemsetAsync");
}

}  // namespace memory
}  // namespace foldgrad
