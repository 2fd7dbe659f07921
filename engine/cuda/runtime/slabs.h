// Blocks cut from larger ones. The first steps of training ask for thousands, and each cudaMalloc takes as long as many
// kernels. The emulation does without, so that sanitizers see where a block ends.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>

namespace foldgrad {

class Slabs {
 public:
  static constexpr std::size_t kSlabBytes = std::size_t(64) << 20;
  static constexpr std::size_t kMostBytes = kSlabBytes / 4;  // beyond, a block has a slab of its own
  static constexpr std::size_t kAlignment = 256;             // as cudaMalloc has

  // Where slabs come from, which throws OutOfMemory, and where they go.
  Slabs(std::function<void*(std::size_t)> allocate, std::function<void(void*)> release)
      : from_system_(std::move(allocate)), to_system_(std::move(release)) {}

  // Throws OutOfMemory when the system has neither a slab nor just the block.
  void* allocate(std::size_t bytes);
  // False when the block is none of these. A slab of which nothing is left goes back to the system.
  bool release(void* block) noexcept;

 private:
  struct Piece {
    std::size_t bytes;
    bool free;
  };
  struct Slab {
    std::map<char*, Piece> pieces;  // one after the other
    std::size_t free_bytes;
  };

  char* cut(Slab& slab, std::size_t bytes);
  Slab& new_slab(std::size_t bytes);

  const std::function<void*(std::size_t)> from_system_;
  const std::function<void(void*)> to_system_;
  std::mutex mutex_;
  std::map<char*, Slab> slabs_;  // by where they begin
};

}  // namespace foldgrad
