// Streams, library handles and the like: one of each per device.
#pragma once
#include <array>
#include <mutex>

#include "engine/cuda/runtime/device_guard.h"

namespace foldgrad {

template <class T>
class PerDevice {
 public:
  // That of cuda_device(), made by make() when it is first asked for, with that device current. One that throws is
  // asked again.
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
