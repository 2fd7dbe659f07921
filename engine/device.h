// The two kinds of memory, and the few functions that the engine needs from the CUDA runtime. CMake chooses the file
// that implements these functions: device_cudart.cu with nvcc, otherwise device_no_cudart.cpp. With
// FOLDGRAD_CUDA=EMULATE, `cuda` is host memory, and emulation/ runs the kernels. With OFF, there is no `cuda`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace foldgrad {

enum class Device : std::uint8_t { cpu, cuda };

constexpr const char* name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

// Returns true if this process can place tensors on `cuda`: there is a GPU with a driver, or the build emulates one.
bool cuda_available();
// Returns true if the host emulates kernels, with one fiber per CUDA thread. Emulation is slow; use it only for tests.
bool cuda_is_emulated();
// Returns a description such as "NVIDIA H200, compute capability 9.0, 139.8 GiB", or why there is no device.
std::string cuda_description();
// Waits for all kernels launched so far. Throws their errors as std::runtime_error.
void cuda_synchronize();
// Returns the number of times this process has waited for a device: in cuda_synchronize(), in a copy to the host, or in
// a copy to the device with 64 MiB still queued. Tests use it to check that a training step never lets the GPU idle.
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

// Returns memory from the system, aligned to at least 64 bytes. Usually, call memory::allocate (memory.h) instead,
// which reuses memory. Throws std::runtime_error if the device is out of memory.
void* system_allocate(Device device, std::size_t bytes);
void system_release(Device device, void* pointer) noexcept;
// Copies between any two devices; the source may be changed as soon as this returns. A copy from the device to the
// host waits for the kernels before it. A copy to the device is queued; it waits only if 64 MiB are queued already.
void copy(Device to, void* target, Device from, const void* source, std::size_t bytes);
void zero(Device device, void* target, std::size_t bytes);

}  // namespace memory
}  // namespace foldgrad
