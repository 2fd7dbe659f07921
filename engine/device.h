// The two kinds of memory, and the few functions that the engine needs from the CUDA runtime. CMake chooses the file
// that implements these functions: device_cudart.cu with nvcc, otherwise device_no_cudart.cpp. Without nvcc, `cuda` is
// host memory, and emulation/ runs the kernels on the host (FOLDGRAD_CUDA=EMULATE), or there is no `cuda` (OFF).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace foldgrad {

enum class Device : std::uint8_t { cpu, cuda };

constexpr const char* name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

// Returns true if this process can place tensors on `cuda`: there is a GPU with a driver, or the build emulates one.
bool cuda_available();
// Returns true if kernels are emulated on the host, with one fiber per CUDA thread. Emulation is slow: it is for tests.
bool cuda_is_emulated();
// Returns "NVIDIA H200, compute capability 9.0, 139.8 GiB", "emulated on the host", or why there is no device.
std::string cuda_description();
// Waits for all kernels launched so far. Throws their errors as std::runtime_error.
void cuda_synchronize();
// Returns how often this process has waited for a device: in cuda_synchronize(), in a copy to the host, and in a copy
// to the device while 64 MiB were still queued. For tests: a training step must not wait, or the GPU would idle.
std::int64_t host_waits();

constexpr int kMostCudaDevices = 16;

// Returns the number of GPUs that the driver reports, usable or not: 0 without a driver, 2 under emulation.
int cuda_devices();
// Returns why device `index` cannot be used and what to do about it, or an empty string if it can be used.
std::string cuda_trouble(int index);

// Makes Device::cuda mean GPU `index`, on all threads; the default is 0. Each GPU has its own memory pool, stream and
// library handles. Tensors do not move, and kernels on one GPU cannot read another's tensors, so call this before you
// create any. Throws std::invalid_argument if there is no such device.
void use_cuda_device(int index);
int cuda_device();

namespace memory {

// Returns memory from the system, aligned to at least 64 bytes. All other code should call memory::allocate
// (memory.h), which caches. Throws std::runtime_error if the device is out of memory.
void* system_allocate(Device device, std::size_t bytes);
void system_release(Device device, void* pointer) noexcept;
// Copies between any two devices; the source may be changed as soon as this returns. A copy from the device to the
// host waits for the kernels before it. A copy to the device is queued; it waits only if 64 MiB are queued already.
void copy(Device to, void* target, Device from, const void* source, std::size_t bytes);
void zero(Device device, void* target, std::size_t bytes);

}  // namespace memory
}  // namespace foldgrad
