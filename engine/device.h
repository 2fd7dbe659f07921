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
// Kernels run on the host, one fiber per thread: for tests, never for speed.
bool cuda_is_emulated();
// For people: "NVIDIA H200, compute capability 9.0, 139.8 GiB", "emulated on the host", or why there is none.
std::string cuda_description();
// Waits for every kernel launched so far. Errors of those kernels surface here, as std::runtime_error.
void cuda_synchronize();

namespace memory {

// Memory from the system, not from the cache of memory.h, which is what everyone else should ask. Aligned to at least
// 64 bytes. Throws std::runtime_error when the device has no more.
void* system_allocate(Device device, std::size_t bytes);
void system_release(Device device, void* pointer) noexcept;
// The host's part of the two above, shared by their implementations.
void* host_allocate(std::size_t bytes);
void host_release(void* pointer) noexcept;
// Copies between any two devices; the source may be changed as soon as this returns. From the device to the host it
// waits for the kernels before. Otherwise it is queued, and waits only where 64 MiB for the device are under way
// already.
void copy(Device to, void* target, Device from, const void* source, std::size_t bytes);
void zero(Device device, void* target, std::size_t bytes);

}  // namespace memory
}  // namespace foldgrad
