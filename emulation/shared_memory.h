// The shared memory of a block, with a guard behind it that shows what was written past its end.
#pragma once
#include <cstddef>
#include <memory>

namespace foldgrad::emulation {

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);

  unsigned char* data() { return block_.get(); }
  void fill();               // with a pattern that is NaN in every float, so that no block reads what another left
  void check_guard() const;  // throws, naming the block that runs, when a thread has written behind the end

 private:
  std::size_t bytes_;
  std::unique_ptr<unsigned char[]> block_;
};

}  // namespace foldgrad::emulation
