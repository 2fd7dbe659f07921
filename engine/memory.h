// The caching allocator behind every tensor. It keeps freed blocks by size class and hands them out again. After the
// first training steps it no longer asks the system for memory, and `system_allocations` stays constant. A large block
// also serves requests for more than half its size.
//
// On `cuda`, a block may be handed out while queued kernels still read it. This is safe because all kernels run in
// order on one stream: the new owner's kernels run after them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/device.h"

namespace foldgrad {

// Thrown when a device is out of memory: "memory: the host has no 1024 bytes left".
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory(const std::string& where, std::size_t bytes)
      : std::runtime_error("memory: " + where + " has no " + std::to_string(bytes) + " bytes left") {}
};

namespace memory {

// Returns uninitialised memory, aligned to 64 bytes, or null for zero bytes. The memory returns to the cache when its
// last reference is gone. If the device has no memory left, empties the cache and tries again. If that also fails,
// throws OutOfMemory.
std::shared_ptr<void> allocate(Device device, std::size_t bytes);

struct Statistics {
  std::size_t current = 0;  // bytes in use, rounded up to size classes
  std::size_t peak = 0;     // the largest `current` since the start or the last reset_peak()
  std::size_t cached = 0;   // bytes kept for reuse
  std::uint64_t system_allocations = 0;
};
Statistics statistics(Device device);
void reset_peak(Device device);

// Returns every cached block to the system.
void release_cache(Device device);

}  // namespace memory
}  // namespace foldgrad
