#include "engine/cpu/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "engine/cpu/elementwise.h"
#include "engine/memory.h"

namespace foldgrad::memory {
namespace {
// Blocks of at least this size use huge pages: with 4 KiB pages, a pass over 16 MiB spends a third of its time on page
// faults and TLB misses.
constexpr std::size_t kHugePage = std::size_t(2) << 20;
constexpr std::size_t kAlignment = 64;  // size of a cache line and of an AVX-512 register
}  // namespace

void* host_allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* pointer = rounded >= bytes ? std::aligned_alloc(alignment, rounded) : nullptr;
  if (!pointer) throw OutOfMemory("the host", bytes);
  if (alignment == kHugePage) madvise(pointer, rounded, MADV_HUGEPAGE);  // only advice, so failures are ignored
  return pointer;
}

void host_release(void* pointer) noexcept { std::free(pointer); }

void host_copy(void* target, const void* source, std::size_t bytes) {
  constexpr std::size_t kParallelBytes = std::size_t(1) << 20;
  if (bytes < kParallelBytes) {
    if (bytes) std::memcpy(target, source, bytes);
    return;
  }
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  const std::int64_t n = std::int64_t(bytes);
  parallel_blocks(n, [=](std::int64_t begin, std::int64_t end) {
    write_cpu(to, begin, end, bypasses_cache(to, n), [from](std::int64_t i) { return from[i]; });
  });
}

}  // namespace foldgrad::memory
