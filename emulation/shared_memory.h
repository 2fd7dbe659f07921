// The shared memory of a block, followed by a guard that detects writes past its end. Private to emulation/.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>

#include "emulation/lanes.h"

namespace foldgrad::emulation {

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes), block_(new unsigned char[bytes + kGuardBytes]) {
    std::memset(data(), kFill, bytes + kGuardBytes);
  }

  unsigned char* data() { return block_.get(); }
  // Fills the memory with a pattern that makes every float a NaN, so that no block can use values of an earlier block.
  void fill() { std::memset(data(), kFill, bytes_); }
  // Throws an error that names the running block if a thread has written past the end.
  void check_guard() const {
    const unsigned char* guard = block_.get() + bytes_;
    if (kGuardBytes == 0 || (guard[0] == kFill && std::memcmp(guard, guard + 1, kGuardBytes - 1) == 0)) return;
    const auto* written = std::find_if(guard, guard + kGuardBytes, [](unsigned char byte) { return byte != kFill; });
    throw std::runtime_error(running_block() + ": a thread wrote past the " + std::to_string(bytes_) +
                             " bytes of shared memory, at byte " + std::to_string(bytes_ + (written - guard)));
  }

 private:
  // The guard is big enough to catch one extra 4-byte write by each thread of the largest block. With AddressSanitizer
  // there is no guard, because it checks the end of every heap block itself.
  static constexpr std::size_t kGuardBytes = kAddressSanitizer ? 0 : 4096;
  static constexpr int kFill = 0xff;

  std::size_t bytes_;
  std::unique_ptr<unsigned char[]> block_;
};

}  // namespace foldgrad::emulation
