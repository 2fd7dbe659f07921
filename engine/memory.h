// The caching allocator under every tensor. Freed blocks are kept by size class and handed out again, so that in the
// steady state of training no memory comes from the system: `system_allocations` then stands still.
//
// On `cuda` a block may be handed out again while kernels that read it are still queued: all kernels run on one stream,
// in order, so whoever writes it comes after them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/device.h"

namespace foldgrad::memory {

// Uninitialised memory, aligned to 64 bytes; back to the cache with the last reference. Zero bytes give null.
// When the device has none left, the cache is emptied and the device asked once more; then OutOfMemory, of a GPU with
// a table of what each scope of tapes holds there.
std::shared_ptr<void> allocate(Device device, std::size_t bytes);

struct Statistics {
  std::size_t current = 0;  // bytes handed out and not yet back, rounded up to size classes
  std::size_t peak = 0;     // the largest `current` since the start or the last reset_peak()
  std::size_t cached = 0;   // bytes kept for reuse
  std::uint64_t system_allocations = 0;
};
Statistics statistics(Device device);
void reset_peak(Device device);

// Gives every cached block back to the system.
void release_cache(Device device);

// Blocks of the device that a captured graph (engine/cuda/graph.h) may use again and again, and nobody else. It takes
// what it lacks from the cache. Its blocks go back there when the reserve, its copies and all who hold one are gone.
class Pool;
class Reserve {
 public:
  Reserve();  // on cuda_device()

  // While one lives, this thread's memory of the device comes from the reserve, and blocks of the cache that become
  // free belong to it from then on: captured kernels may still read them.
  class Use {
   public:
    explicit Use(const Reserve& reserve);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const std::shared_ptr<Pool> pool_;
    const std::shared_ptr<Pool>* before_;
  };

 private:
  std::shared_ptr<Pool> pool_;
};

}  // namespace foldgrad::memory
