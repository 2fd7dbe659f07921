#include "engine/cuda/arrivals.h"

#include "engine/check.h"
#include "engine/cuda/per_device.h"
#include "engine/device.h"

namespace foldgrad {

// Never given back, and not of the allocator's cache, whose blocks may belong to a captured graph.
unsigned* arrivals(std::int64_t count) {
  constexpr std::int64_t kMost = 1 << 16;
  FOLDGRAD_CHECK(count <= kMost, "a kernel's blocks can share at most {} counters, got {}", kMost, count);
  static PerDevice<unsigned*> counters;
  return counters.here([] {
    void* memory = memory::system_allocate(Device::cuda, kMost * sizeof(unsigned));
    memory::zero(Device::cuda, memory, kMost * sizeof(unsigned));
    return static_cast<unsigned*>(memory);
  });
}

}  // namespace foldgrad
