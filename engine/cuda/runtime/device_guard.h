// Calls of the CUDA runtime go to the device that is current for the host thread, and others may have chosen another.
#pragma once
#include <array>
#include <mutex>

#include "engine/device.h"

namespace foldgrad {

// These read and set the current device of this host thread. Implemented by the CUDA runtime or by the emulation.
int current_cuda_device();
void set_current_cuda_device(int index);
void restore_cuda_device(int index) noexcept;  // where it cannot, the next call that needs the device says why

// Must be called before the host waits for the device (host_waits()).
void count_host_wait();

// A scope in which cuda_device() is current, and after which what was before is current again.
class CudaDeviceGuard {
 public:
  CudaDeviceGuard() : before_(current_cuda_device()), changes_(before_ != cuda_device()) {
    if (changes_) set_current_cuda_device(cuda_device());
  }
  ~CudaDeviceGuard() {
    if (changes_) restore_cuda_device(before_);
  }
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

 private:
  int before_;
  bool changes_;
};

// Streams, library handles and the like: one of each per device.
template <class T>
class PerDevice {
 public:
  // Returns that of cuda_device(), made by make() when it is first asked for, with that device current. A make() that
  // throws is called again.
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
