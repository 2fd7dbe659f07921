// Memory of the device in slabs, and the ring by which uploads go.
#include "engine/cuda/runtime/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "engine/cuda/runtime/staging_ring.h"
#include "engine/memory.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

// Memory of the host, of which a machine has only so much. Nobody touches more than it was given, or ASan would see it.
struct Machine {
  std::size_t free = std::size_t(1) << 30;
  std::map<void*, std::size_t> held = {};
  int calls = 0;
  Slabs slabs{[this](std::size_t bytes) {
                ++calls;
                if (bytes > free) throw OutOfMemory("the machine", bytes);
                free -= bytes;
                void* memory = std::aligned_alloc(Slabs::kAlignment, bytes);
                held[memory] = bytes;
                return memory;
              },
              [this](void* memory) {
                free += held.at(memory);
                held.erase(memory);
                std::free(memory);
              }};
};

constexpr std::size_t kMiB = std::size_t(1) << 20;

TEST(Slabs, AThousandBlocksAreAFewCalls) {
  Machine machine;
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(machine.slabs.allocate(128 * 1024));  // 125 MiB
  EXPECT_EQ(machine.calls, 2);
  for (void* block : blocks) EXPECT_TRUE(machine.slabs.release(block));
  EXPECT_TRUE(machine.held.empty());
}

TEST(Slabs, LargeBlocksAreAloneAndExact) {
  Machine machine;
  void* block = machine.slabs.allocate(Slabs::kMostBytes + 1);
  EXPECT_EQ(machine.held.at(block), Slabs::kMostBytes + Slabs::kAlignment);
  EXPECT_TRUE(machine.slabs.release(block));
  void* smaller = machine.slabs.allocate(Slabs::kMostBytes);
  EXPECT_EQ(machine.held.at(smaller), Slabs::kSlabBytes);
  EXPECT_TRUE(machine.slabs.release(smaller));
}

TEST(Slabs, WithoutRoomForASlabTheBlockAloneWillDo) {
  Machine machine{.free = 10 * kMiB};
  void* block = machine.slabs.allocate(8 * kMiB);
  EXPECT_EQ(machine.held.at(block), 8 * kMiB);
  EXPECT_THROW(machine.slabs.allocate(4 * kMiB), OutOfMemory);
  EXPECT_TRUE(machine.slabs.release(block));
  EXPECT_EQ(machine.free, 10 * kMiB);
}

TEST(Slabs, ForeignBlocksAreLeftAlone) {
  Machine machine;
  int foreign = 0;
  EXPECT_FALSE(machine.slabs.release(&foreign));
  char* block = static_cast<char*>(machine.slabs.allocate(1000));
  EXPECT_FALSE(machine.slabs.release(block + 256));
  EXPECT_FALSE(machine.slabs.release(&foreign));
  EXPECT_TRUE(machine.slabs.release(block));
}

// Neighbours that are free become one, whichever is given back first.
TEST(Slabs, WhatIsGivenBackCanBeCutAnew) {
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}) {
    Machine machine;
    std::vector<void*> quarters;
    for (int i = 0; i < 4; ++i) quarters.push_back(machine.slabs.allocate(Slabs::kSlabBytes / 4));
    for (const int i : order) machine.slabs.release(quarters[i]);
    for (int i = 0; i < 6; ++i) machine.slabs.allocate(Slabs::kSlabBytes / 8);
    EXPECT_EQ(machine.calls, 1);
    machine.slabs.allocate(1);
    EXPECT_EQ(machine.calls, 2) << "the first slab is full";
    for (const auto& [memory, bytes] : machine.held) std::free(memory);
  }
}

// At random, in the 64 KiB that are left of the only slab, so that its pieces are used again, and sometimes do not do.
TEST(Slabs, BlocksKeepWhatIsWrittenToThem) {
  struct Block {
    std::uint8_t* memory;
    std::size_t bytes;
    std::uint8_t value;
  };
  Machine machine{.free = Slabs::kSlabBytes + kMiB};
  std::mt19937 random(1);
  std::vector<void*> most;
  for (const std::size_t left : {0, 0, 0, 64 * 1024}) most.push_back(machine.slabs.allocate(Slabs::kMostBytes - left));
  std::vector<Block> blocks;
  const auto give_back = [&](std::size_t i) {
    const auto [memory, bytes, value] = blocks[i];
    EXPECT_EQ(std::count(memory, memory + bytes, value), std::ptrdiff_t(bytes));
    EXPECT_TRUE(machine.slabs.release(memory));
    blocks.erase(blocks.begin() + std::ptrdiff_t(i));
  };
  for (int i = 0; i < 2000; ++i) {
    const std::size_t bytes = 1 + random() % 3000;
    auto* memory = static_cast<std::uint8_t*>(machine.slabs.allocate(bytes));
    EXPECT_EQ(std::uintptr_t(memory) % Slabs::kAlignment, 0u);
    blocks.push_back({memory, bytes, std::uint8_t(i)});
    std::memset(memory, i, bytes);
    while (blocks.size() > 40) give_back(random() % blocks.size());
  }
  EXPECT_GT(machine.calls, 1);
  while (!blocks.empty()) give_back(0);
  for (void* block : most) EXPECT_TRUE(machine.slabs.release(block));
  EXPECT_TRUE(machine.held.empty());
}

struct SlowDevice final : Marks {
  std::uint64_t set() override { return ++last; }
  bool passed(std::uint64_t mark) override { return mark <= done; }
  void wait(std::uint64_t mark) override {
    ++waits;
    done = std::max(done, mark);
  }
  void forget(std::uint64_t mark) override {
    EXPECT_LE(mark, done) << "a mark that is still to come";
    EXPECT_EQ(mark, ++forgotten) << "each once, in their order";
  }

  std::uint64_t last = 0, done = 0, forgotten = 0;
  int waits = 0;
};

TEST(StagingRing, WaitsOnlyWhenItIsFull) {
  SlowDevice device;
  StagingRing ring(100, device);
  const std::int64_t before = host_waits();
  const auto upload = [&](std::size_t bytes) {
    const std::size_t offset = ring.reserve(bytes);
    ring.queued();
    return offset;
  };
  EXPECT_EQ(upload(40), 0u);
  EXPECT_EQ(upload(40), 40u);
  EXPECT_EQ(device.waits, 0);
  EXPECT_EQ(upload(30), 0u) << "20 are left at the end";
  EXPECT_EQ(device.waits, 1) << "for the first 40";
  EXPECT_EQ(upload(10), 30u);
  EXPECT_EQ(device.waits, 1);
  EXPECT_EQ(upload(1), 40u);
  EXPECT_EQ(device.waits, 2);
  device.done = device.last;
  EXPECT_EQ(upload(100), 0u);
  EXPECT_EQ(device.waits, 2) << "all has been copied";
  EXPECT_EQ(host_waits() - before, 2);
}

RC_GTEST_PROP(StagingRing, NeverGivesWhatIsStillBeingCopied, ()) {
  const std::size_t size = *rc::gen::inRange<std::size_t>(1, 200);
  SlowDevice device;
  StagingRing ring(size, device);
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> parts;  // by mark
  int laps = 0;
  for (int n = 0; n < 200; ++n) {
    const std::size_t bytes = *rc::gen::inRange<std::size_t>(1, size + 1);
    device.done = std::min(device.last, device.done + *rc::gen::inRange<std::uint64_t>(0, 3));
    const std::size_t begin = ring.reserve(bytes);
    RC_ASSERT(begin + bytes <= size);
    for (const auto& [mark, part] : parts)
      RC_ASSERT(mark <= device.done || part.second <= begin || begin + bytes <= part.first);
    ring.queued();
    parts[device.last] = {begin, begin + bytes};
    laps += begin == 0;
  }
  RC_ASSERT(laps > 1);
}

}  // namespace
}  // namespace foldgrad::testing
