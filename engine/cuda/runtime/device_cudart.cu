// Implements devices in builds with nvcc. The program also starts without a driver, but then it can only use the host.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "engine/cpu/host_memory.h"
#include "engine/cuda/runtime/cudart.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/cuda/runtime/trouble.h"
#include "engine/device.h"
#include "engine/memory.h"

namespace foldgrad {

void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string("cuda: ") + call + " failed: " + cudaGetErrorString(error));
}

namespace {

CudaMachine::Trouble kind_of(cudaError_t error, const CudaMachine& m) {
  using Trouble = CudaMachine::Trouble;
  if (error == cudaSuccess) return m.devices == 0 ? Trouble::no_device : Trouble::none;
  if (m.driver == 0) return Trouble::no_driver;
  if (error == cudaErrorInsufficientDriver || m.driver / 1000 < m.toolkit / 1000) return Trouble::driver_too_old;
  if (error == cudaErrorNoDevice) return Trouble::no_device;
  const bool no_image = error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
                        error == cudaErrorUnsupportedPtxVersion;
  return no_image ? Trouble::no_kernel_image : Trouble::other;
}

// Returns the architectures for which this file and all kernels are compiled: 800,900 becomes "8.0, 9.0".
std::string built_for() {
  std::string all;
  for (const int architecture : {__CUDA_ARCH_LIST__})
    all +=
        (all.empty() ? "" : ", ") + std::to_string(architecture / 100) + "." + std::to_string(architecture / 10 % 10);
  return all;
}

// A probe: if this kernel has no image for the GPU, no other kernel has one.
__global__ void probe_kernel() {}

CudaMachine examine(int index) {
  CudaMachine m;
  cudaDriverGetVersion(&m.driver);
  cudaRuntimeGetVersion(&m.toolkit);
  m.built_for = built_for();
  cudaError_t error = cudaGetDeviceCount(&m.devices);
  if (error == cudaSuccess && index < m.devices) {
    cudaDeviceProp properties;
    error = cudaGetDeviceProperties(&properties, index);
    m.name = properties.name;
    m.capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
    int before = 0;
    cudaGetDevice(&before);
    if (error == cudaSuccess) error = cudaSetDevice(index);
    cudaFuncAttributes attributes;
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, probe_kernel);
    cudaSetDevice(before);
  }
  m.trouble = kind_of(error, m);
  m.message = cudaGetErrorString(error);
  cudaGetLastError();  // clears the error
  return m;
}

}  // namespace

int cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) cudaGetLastError();
  return count;
}

// Examines each device only once, since an examination creates a context and takes a second.
std::string cuda_trouble(int index) {
  if (index >= kMostCudaDevices) return "devices are numbered up to " + std::to_string(kMostCudaDevices - 1);
  static std::once_flag looked[kMostCudaDevices];
  static std::string troubles[kMostCudaDevices];
  std::call_once(looked[index], [index] { troubles[index] = explain(examine(index), index); });
  return troubles[index];
}

int current_cuda_device() {
  int index = 0;
  check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}
void set_current_cuda_device(int index) { check_cuda(cudaSetDevice(index), "cudaSetDevice"); }
void restore_cuda_device(int index) noexcept {
  if (cudaSetDevice(index) != cudaSuccess) cudaGetLastError();
}

bool cuda_is_emulated() { return false; }

std::string cuda_description() {
  if (!cuda_available()) return "none: " + cuda_trouble(cuda_device());
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, cuda_device()), "cudaGetDeviceProperties");
  char text[400];
  std::snprintf(text, sizeof text, "%s, compute capability %d.%d, %.1f GiB", properties.name, properties.major,
                properties.minor, double(properties.totalGlobalMem) / (1 << 30));
  return text;
}

// Returns our own stream, since the default stream would wait for the streams of other libraries. The device stays
// current on this thread, since the caller is about to use the stream.
cudaStream_t cuda_stream() {
  static PerDevice<cudaStream_t> streams;
  if (current_cuda_device() != cuda_device()) set_current_cuda_device(cuda_device());
  return streams.here([] {
    cudaStream_t created;
    check_cuda(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return created;
  });
}

void cuda_synchronize() {
  if (!cuda_available()) return;
  count_host_wait();
  const CudaDeviceGuard guard;
  check_cuda(cudaStreamSynchronize(cuda_stream()),
             "a kernel or copy before cudaStreamSynchronize (FOLDGRAD_CUDA_BLOCKING=1 names the kernel)");
}

namespace memory {

// Takes blocks from the runtime's pool, which cuts them from larger blocks. The first training steps request thousands
// of blocks, and each cudaMalloc would take as long as many kernels.
void* system_allocate(Device device, std::size_t bytes) {
  if (device == Device::cpu) return host_allocate(bytes);
  if (!cuda_available()) throw std::runtime_error("memory: no CUDA device: " + cuda_trouble(cuda_device()));
  const CudaDeviceGuard guard;
  void* pointer = nullptr;
  const cudaError_t error = cudaMallocAsync(&pointer, bytes, cuda_stream());
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, since the allocator may empty its cache and try again
    throw OutOfMemory("the GPU", bytes);
  }
  check_cuda(error, "cudaMallocAsync");
  return pointer;
}

// The caller must have synchronized, since cudaFree does not wait for kernels if the memory is from the runtime's pool.
// cudaFree fails only while the process ends, after the driver has shut down.
void system_release(Device device, void* pointer) noexcept {
  device == Device::cpu ? host_release(pointer) : void(cudaFree(pointer));
}

void copy(Device to, void* target, Device from, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  if (from == Device::cpu) return to == Device::cpu ? host_copy(target, source, bytes) : upload(target, source, bytes);
  if (to == Device::cpu) count_host_wait();
  const CudaDeviceGuard guard;
  check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, cuda_stream()), "cudaMemcpyAsync");
  if (to == Device::cpu) check_cuda(cudaStreamSynchronize(cuda_stream()), "a kernel or copy before a copy to the host");
}

void zero(Device device, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cpu) return (void)std::memset(target, 0, bytes);
  const CudaDeviceGuard guard;
  check_cuda(cudaMemsetAsync(target, 0, bytes, cuda_stream()), "cudaMemsetAsync");
}

}  // namespace memory
}  // namespace foldgrad
