// Tests that blocks can be freed when operator new has no memory left for the allocator's bookkeeping.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // a false alarm: this file replaces new and delete

#include "engine/memory.h"

namespace {
bool refuse = false;
}  // namespace

void* operator new(std::size_t bytes) {
  void* pointer = refuse ? nullptr : std::malloc(bytes);
  if (!pointer) throw std::bad_alloc();
  return pointer;
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }

namespace foldgrad::memory {
namespace {

// If a block's deleter allocated memory, the exception would end the program. That once happened when a half-built
// model was destroyed.
TEST(MemoryRefused, GivingBackNeedsNoMemory) {
  std::vector<std::shared_ptr<void>> held;
  for (const std::size_t bytes : {1, 1000, 100'000})
    for (int i = 0; i < 300; ++i) held.push_back(allocate(Device::cpu, bytes));
  const std::size_t current = statistics(Device::cpu).current;
  refuse = true;
  for (auto& block : held) block.reset();
  refuse = false;
  EXPECT_EQ(statistics(Device::cpu).cached, current);
  release_cache(Device::cpu);
  EXPECT_EQ(statistics(Device::cpu).cached, 0u);
}

}  // namespace
}  // namespace foldgrad::memory
