// Finds where the host waits for the device, for tests: a training step must not, or the device would run dry.
//
//   {
//     const NoHostWait scope;
//     trainer.step();  // throws HostWait: "host wait: a copy to the host at encoder.layers.0"
//   }
//
// The host waits in a copy to the host, in a copy to the device that finds the staging memory full (upload_cudart.cu),
// and in cuda_synchronize(). A scope also refuses memory that no cache has, since asking the device for it may wait. So
// a step of the same shapes must have gone before.
#pragma once
#include <cstdint>
#include <stdexcept>

namespace foldgrad {

class HostWait : public std::logic_error {
  using std::logic_error::logic_error;
};

// While one lives, a wait of this thread throws HostWait instead.
class NoHostWait {
 public:
  NoHostWait();
  ~NoHostWait();
  NoHostWait(const NoHostWait&) = delete;
  NoHostWait& operator=(const NoHostWait&) = delete;
};

// Waits of this process so far.
std::int64_t host_waits();

// For engine/cuda: to be called before waiting, and before asking the system for memory of the device.
void before_wait(const char* what);
void before_system_allocation();

}  // namespace foldgrad
