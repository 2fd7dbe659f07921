#include "engine/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

namespace foldgrad::memory {
namespace {

// Rounds up to 256 bytes or to one of four sizes per power of two. Above 256 bytes, at most a fifth is unused.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// The memory blocks of the host or of one GPU.
class Pool {
 public:
  explicit Pool(Device device = Device::cuda) : device_(device) {}

  struct Taken {
    void* block;
    std::size_t of_class;  // size of the block, at least the size that was requested
  };

  Taken take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const std::size_t of_class = class_with_a_free_block(size);
    Blocks& blocks = blocks_[of_class];
    void* block = nullptr;
    if (blocks.free.empty()) {
      // Reserves room for all blocks, so that freeing never allocates.
      if (++blocks.all > blocks.free.capacity()) blocks.free.reserve(2 * blocks.all);
      block = asking_twice(of_class);
    } else {
      block = blocks.free.back();
      blocks.free.pop_back();
      statistics_.cached -= of_class;
    }
    statistics_.current += of_class;
    statistics_.peak = std::max(statistics_.peak, statistics_.current);
    return {block, of_class};
  }

  void give_back(const Taken& taken) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.current -= taken.of_class;
    statistics_.cached += taken.of_class;
    blocks_.find(taken.of_class)->second.free.push_back(taken.block);  // never allocates: take() has reserved room
  }

  void release_cache() {
    const std::lock_guard lock(mutex_);
    release_all();
  }

  Statistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.current;
  }

 private:
  struct Blocks {
    std::vector<void*> free;
    std::size_t all = 0;  // free blocks and blocks in use
  };

  // Returns `size`, or a larger size class that has a free block. Without such reuse, batches with different numbers of
  // rows would fill the cache with activations of every size.
  std::size_t class_with_a_free_block(std::size_t size) const {
    constexpr std::size_t kLarge = std::size_t(64) << 10;
    if (size < kLarge) return size;
    for (auto it = blocks_.lower_bound(size); it != blocks_.end() && it->first < 2 * size; ++it)
      if (!it->second.free.empty()) return it->first;
    return size;
  }

  void* asking_twice(std::size_t size) {
    ++statistics_.system_allocations;
    try {
      return system_allocate(device_, size);
    } catch (const OutOfMemory&) {
      if (statistics_.cached == 0) throw;
    }
    release_all();
    return system_allocate(device_, size);
  }

  void release_all() {
    if (device_ == Device::cuda) cuda_synchronize();  // queued kernels may still use the cached blocks
    for (auto& [size, blocks] : blocks_) {
      for (void* block : blocks.free) system_release(device_, block);
      blocks.all -= blocks.free.size();
      blocks.free.clear();
    }
    statistics_.cached = 0;
  }

  const Device device_;
  std::mutex mutex_;
  std::map<std::size_t, Blocks> blocks_;
  Statistics statistics_;
};

// Returns the pool of the host or of the GPU in use. Never destroys a pool: a tensor with static lifetime may use it.
Pool& pool(Device device) {
  static Pool& host = *new Pool(Device::cpu);
  static auto& gpus = *new std::array<Pool, kMostCudaDevices>;
  return device == Device::cpu ? host : gpus[std::size_t(cuda_device())];
}

}  // namespace

std::shared_ptr<void> allocate(Device device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Pool& from = pool(device);
  const Pool::Taken taken = from.take(size_class(bytes));
  return std::shared_ptr<void>(taken.block, [&from, taken](void*) { from.give_back(taken); });
}

Statistics statistics(Device device) { return pool(device).statistics(); }
void reset_peak(Device device) { pool(device).reset_peak(); }
void release_cache(Device device) { pool(device).release_cache(); }

}  // namespace foldgrad::memory
