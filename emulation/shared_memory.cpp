#include "emulation/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "emulation/lanes.h"

namespace foldgrad::emulation {
namespace {
// 4 bytes more for each thread of the largest block stay within. AddressSanitizer has a guard of its own, and the block
// is on the heap and of exact size for it.
constexpr std::size_t kGuardBytes = kAddressSanitizer ? 0 : 4096;
constexpr int kFill = 0xff;
}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes), block_(new unsigned char[bytes + kGuardBytes]) {
  std::memset(block_.get(), kFill, bytes + kGuardBytes);
}

void SharedMemory::fill() { std::memset(block_.get(), kFill, bytes_); }

void SharedMemory::check_guard() const {
  const unsigned char* guard = block_.get() + bytes_;
  if (kGuardBytes == 0 || (guard[0] == kFill && std::memcmp(guard, guard + 1, kGuardBytes - 1) == 0)) return;
  const auto* written = std::find_if(guard, guard + kGuardBytes, [](unsigned char byte) { return byte != kFill; });
  throw std::runtime_error(running_block() + ": a thread wrote past the " + std::to_string(bytes_) +
                           " bytes of shared memory, at byte " + std::to_string(bytes_ + (written - guard)));
}

}  // namespace foldgrad::emulation
