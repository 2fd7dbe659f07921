// The shared memory of a block, followed by a guard that shows writes past the end.
#pragma once
#include <cstddef>
#include <memory>

namespace foldgrad::emulation {

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);

  unsigned char* data() { return block_.get(); }
  void fill();               // with a pattern that is NaN in every float, so that no block reads what another left
  void check_guard() const;  // throws, naming the block that runs, when a thread has written past the end

 private:
  std::size_t bytes_;
  std::unique_ptr<unsigned char[]> block_;
};

}  // namespace foldgrad::emulation
