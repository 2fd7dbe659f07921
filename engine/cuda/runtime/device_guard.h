// Makes our device current for calls to the CUDA runtime. These calls apply to the host thread's current device, which
// other libraries may have changed.
#pragma once
#include <array>
#include <mutex>

#include "engine/device.h"

namespace foldgrad {

// These functions read and set the calling thread's current device, through the CUDA runtime or the emulation.
int current_cuda_device();
void set_current_cuda_device(int index);
void restore_cuda_device(int index) noexcept;  // if this fails, the next call that needs the device reports why

// Counts a wait of the host for the device. Call this before the wait. host_waits() returns the count.
void count_host_wait();

// Makes cuda_device() current while the object lives, then restores the previous device.
class CudaDeviceGuard {
 public:
  CudaDeviceGuard() : before_(current_cuda_device()), changes_(before_ != cuda_device()) {
    if (changes_) set_current_cuda_device(cuda_device());
  }
  ~CudaDeviceGuard() {
    if (changes_) restore_cuda_device(before_);
  }
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;

 private:
  const int before_;
  const bool changes_;
};

// Holds one object per device, such as a stream or a library handle.
template <class T>
class PerDevice {
 public:
  // Returns the object of cuda_device(). The first call on a device makes that device current and calls make(). If
  // make() throws, the next call tries again.
  template <class Make>
  T& here(const Make& make) {
    Slot& slot = slots_[std::size_t(cuda_device())];
    std::call_once(slot.made, [&] {
      const CudaDeviceGuard guard;
      slot.value = make();
    });
    return slot.value;
  }

 private:
  struct Slot {
    std::once_flag made;
    T value{};
  };
  std::array<Slot, kMostCudaDevices> slots_;
};

}  // namespace foldgrad
