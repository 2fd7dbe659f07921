// The two kinds of memory and the few calls the engine makes to the CUDA runtime. Which file implements them is decided
// at configure time: device_cudart.cu with nvcc; device_no_cudart.cpp otherwise, where `cuda` is host memory on which
// kernels run under emulation/ (FOLDGRAD_CUDA=EMULATE) or does not exist (OFF).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace foldgrad {

enum class Device : std::uint8_t { cpu, cuda };

constexpr const char* name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

// Returns true if tensors can be placed on `cuda` in this process: a GPU with a driver, or the emulation.
bool cuda_available();
// Returns true if kernels run on the host, one fiber per thread: for tests, never for speed.
bool cuda_is_emulated();
// Describes the device: "NVIDIA H200, compute capability 9.0, 139.8 GiB", "emulated on the host", or why there is none.
std::string cuda_description();
// Waits for every kernel launched so far. Errors of those kernels surface here, as std::runtime_error.
void cuda_synchronize();
// Returns how often this process has waited for a device: in cuda_synchronize(), in a copy to the host, and in one to
// the device that found too much under way. For tests: a training step must not wait, or the device would run dry.
std::int64_t host_waits();

constexpr int kMostCudaDevices = 16;

// Returns how many GPUs the driver shows to this process, usable or not: 0 without a driver. Under emulation 2, for
// tests.
int cuda_devices();
// Returns why the device of this index cannot be used and what to do about it; empty when it can.
std::string cuda_trouble(int index);

// Chooses the GPU that Device::cuda stands for, for all threads. Memory, stream and library handles are one set per
// device. Tensors stay where they are, and kernels of another device do not read them: choose before there are any. At
// first it is 0. Throws std::invalid_argument for a device that is not there.
void use_cuda_device(int index);
int cuda_device();

namespace memory {

// Returns memory from the system, not from the cache of memory.h, which is what everyone else should ask. Aligned to at
// least 64 bytes. Throws std::runtime_error when the device has no more.
void* system_allocate(Device device, std::size_t bytes);
void system_release(Device device, void* pointer) noexcept;
// Copies between any two devices; the source may be changed as soon as this returns. From the device to the host it
// waits for the kernels before. Otherwise it is queued, and waits only where 64 MiB for the device are under way
// already.
void copy(Device to, void* target, Device from, const void* source, std::size_t bytes);
void zero(Device device, void* target, std::size_t bytes);

}  // namespace memory
}  // namespace foldgrad
