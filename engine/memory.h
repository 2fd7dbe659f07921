// The caching allocator under every tensor. Freed blocks are kept by size class and handed out again, so that in the
// steady state of training no memory comes from the system: `system_allocations` then stands still. A large block also
// serves a request of more than half its size.
//
// On `cuda` a block may be handed out again while kernels that read it are still queued: all kernels run on one stream,
// in order, so a kernel that writes it runs after them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/device.h"

namespace foldgrad {

// A device has no more memory: "memory: the host has no 1024 bytes left".
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory(const std::string& where, std::size_t bytes)
      : std::runtime_error("memory: " + where + " has no " + std::to_string(bytes) + " bytes left") {}
  explicit OutOfMemory(const std::string& message) : std::runtime_error(message) {}
};

inline const std::string kNoScope;
// The scope of the tape that this thread records or runs backward, for messages from below the tape. Only the tape sets
// it.
inline thread_local const std::string* scope_at_hand = &kNoScope;
class ScopeAtHand {
 public:
  explicit ScopeAtHand(const std::string& scope) { scope_at_hand = &scope; }
  ~ScopeAtHand() { scope_at_hand = outer_; }
  ScopeAtHand(const ScopeAtHand&) = delete;

 private:
  const std::string* const outer_ = scope_at_hand;
};

namespace memory {

// Returns uninitialised memory, aligned to 64 bytes, which goes back to the cache with the last reference; null for
// zero bytes. When the device has none left, the cache is emptied and the device asked once more; then throws
// OutOfMemory, on a GPU with a table of what each scope of tapes holds.
std::shared_ptr<void> allocate(Device device, std::size_t bytes);

struct Statistics {
  std::size_t current = 0;  // bytes handed out and not yet returned, rounded up to size classes
  std::size_t peak = 0;     // the largest `current` since the start or the last reset_peak()
  std::size_t cached = 0;   // bytes kept for reuse
  std::uint64_t system_allocations = 0;
};
Statistics statistics(Device device);
void reset_peak(Device device);

// Gives every cached block back to the system.
void release_cache(Device device);

}  // namespace memory
}  // namespace foldgrad
