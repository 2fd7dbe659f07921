// Where the host waits for the device, which a step of training must not do: meanwhile the device runs dry.
//
//   {
//     const NoHostWait scope;
//     trainer.step();  // throws HostWait: "host wait: a copy to the host at encoder.layers.0"
//   }
//
// What waits is a copy to the host, a copy to the device that finds the staging memory full (upload_cudart.cu), and
// cuda_synchronize(). A scope also refuses memory that no cache has: to ask the device for it may wait, and cannot be
// captured. So one step must have gone before, of the same shapes.
#pragma once
#include <cstdint>
#include <stdexcept>

namespace foldgrad {

class HostWait : public std::logic_error {
  using std::logic_error::logic_error;
};

// While one lives, what waits throws HostWait instead, in this thread.
class NoHostWait {
 public:
  NoHostWait();
  ~NoHostWait();
  NoHostWait(const NoHostWait&) = delete;
  NoHostWait& operator=(const NoHostWait&) = delete;
};

// Of this process so far.
std::int64_t host_waits();

// For engine/cuda: call them before waiting, and before asking the system for memory of the device.
void before_wait(const char* what);
void before_system_allocation();

}  // namespace foldgrad
