// Tests the caching allocator. Its counters are for the whole process, so each test begins with an empty cache and
// compares the counters with their values at its beginning.
#include "engine/memory.h"

#include <thread>
#include <vector>

#include "tests/harness/compare.h"

// By default, the sanitizers end a process that requests too much memory. Here such a request must fail instead.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace foldgrad::memory {
namespace {

class Memory : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam() == Device::cuda && !cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
    release_cache(GetParam());
    reset_peak(GetParam());
    start_ = now();
  }
  std::shared_ptr<void> take(std::size_t bytes) { return allocate(GetParam(), bytes); }
  Statistics now() { return statistics(GetParam()); }
  std::size_t current() { return now().current - start_.current; }
  std::size_t peak() { return now().peak - start_.current; }
  std::size_t cached() { return now().cached; }
  std::uint64_t from_system() { return now().system_allocations - start_.system_allocations; }

  Statistics start_;
};

INSTANTIATE_TEST_SUITE_P(Devices, Memory, ::testing::Values(Device::cpu, Device::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Memory, NothingIsNull) {
  EXPECT_EQ(take(0), nullptr);
  EXPECT_EQ(current(), 0u);
  EXPECT_EQ(from_system(), 0u);
}

TEST_P(Memory, BlocksAreAlignedAndDistinct) {
  std::vector<std::shared_ptr<void>> blocks;
  for (const std::size_t bytes : {1, 63, 64, 255, 257, 1000, 5000, 1 << 20, (2 << 20) + 1}) {
    blocks.push_back(take(bytes));
    EXPECT_EQ(std::uintptr_t(blocks.back().get()) % 64, 0u) << bytes;
    zero(GetParam(), blocks.back().get(), bytes);  // the sanitizers report a block that is too short
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) EXPECT_NE(blocks[i], blocks.back());
  }
}

// The smallest size class is 256 bytes. Above it there are four classes for each power of two: 320, 384, 448, 512, ...
TEST_P(Memory, SizesAreRoundedUpToClasses) {
  const std::pair<std::size_t, std::size_t> cases[] = {
      {1, 256},
      {256, 256},
      {257, 320},
      {320, 320},
      {321, 384},
      {512, 512},
      {513, 640},
      {1000, 1024},
      {1025, 1280},
      {1 << 20, 1 << 20},
      {1281, 1536},
      {1537, 1792},
      {1793, 2048},
      {(1 << 20) + 1, 5 << 18},
      {(7 << 18) + 1, 2 << 20},
  };
  for (const auto& [bytes, size] : cases) {
    const auto block = take(bytes);
    EXPECT_EQ(current(), size) << bytes;
  }
}

TEST_P(Memory, CountsWhatIsOutWhatIsKeptAndTheMost) {
  auto a = take(1000), b = take(1000), c = take(300);
  EXPECT_EQ(current(), 2 * 1024u + 320);
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(from_system(), 3u);
  a.reset(), c.reset();
  EXPECT_EQ(current(), 1024u);
  EXPECT_EQ(cached(), 1024u + 320);
  a = take(1000);
  EXPECT_EQ(peak(), 2 * 1024u + 320);
  a.reset();
  reset_peak(GetParam());
  EXPECT_EQ(peak(), 1024u);
  c = take(200);  // is in another class, so the 320 bytes stay in the cache
  EXPECT_EQ(peak(), 1024u + 256);
  EXPECT_EQ(cached(), 1024u + 320);
  EXPECT_EQ(from_system(), 4u);
}

TEST_P(Memory, AFreedBlockIsUsedAgainByItsClassOnly) {
  auto a = take(1000);
  void* const address = a.get();
  a.reset();
  const auto larger = take(1025);
  EXPECT_EQ(from_system(), 2u);
  const auto again = take(900);
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(from_system(), 2u);
  EXPECT_EQ(cached(), 0u);
}

// A large freed block serves any request for more than half its size. So batches of different sizes can share the
// memory of the largest batch.
TEST_P(Memory, ALargeFreedBlockServesMoreThanHalfItsSize) {
  constexpr std::size_t kKiB = 1024;
  void* const address = take(256 * kKiB).get();
  EXPECT_NE(take(256 * kKiB / 2).get(), address);
  const auto smaller = take(256 * kKiB / 2 + 1);
  EXPECT_EQ(smaller.get(), address);
  EXPECT_EQ(current(), 256 * kKiB);
  const auto second = take(200 * kKiB);
  EXPECT_NE(second.get(), address);
  EXPECT_EQ(from_system(), 3u);
}

TEST_P(Memory, TheSecondPassTakesNothingFromTheSystem) {
  const auto pass = [&] {
    std::vector<std::shared_ptr<void>> blocks;
    for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 3 + 1) {
      blocks.push_back(take(bytes));
      const auto brief = take(2 * bytes);
    }
  };
  pass();
  const std::uint64_t first = from_system();
  const std::size_t kept = cached();
  EXPECT_GT(first, 0u);
  for (int i = 0; i < 3; ++i) pass();
  EXPECT_EQ(from_system(), first);
  EXPECT_EQ(cached(), kept);
  EXPECT_EQ(current(), 0u);
}

TEST_P(Memory, ReleaseGivesBackTheCacheAndNothingElse) {
  const auto kept = take(1000);
  take(1000);
  take(5000);
  EXPECT_EQ(cached(), 1024u + 5120);
  release_cache(GetParam());
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(current(), 1024u);
  zero(GetParam(), kept.get(), 1000);
  take(1000);
  EXPECT_EQ(from_system(), 4u);
}

// Under ThreadSanitizer this test finds races. In every build it finds blocks that have two owners.
TEST_P(Memory, Threads) {
  std::vector<std::thread> threads;
  std::vector<int> mixed(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 100 + 300 * std::size_t(i % 3);
        const auto a = take(bytes), b = take(bytes);
        std::vector<char> pattern(bytes, char(t + 1)), read(bytes);
        copy(GetParam(), a.get(), Device::cpu, pattern.data(), bytes);
        zero(GetParam(), b.get(), bytes);
        copy(Device::cpu, read.data(), GetParam(), a.get(), bytes);
        mixed[t] += read != pattern;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, std::vector<int>(4, 0));
  EXPECT_EQ(current(), 0u);
  EXPECT_LE(from_system(), 3 * 8u);  // three classes, at most eight blocks of each at a time
}

// Before a request fails, the cache must have been freed.
TEST_P(Memory, TooMuch) {
  take(1000);
  EXPECT_EQ(cached(), 1024u);
  EXPECT_THROW(take(std::size_t(1) << 62), OutOfMemory);
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(current(), 0u);
  EXPECT_THROW(take(std::size_t(1) << 62), OutOfMemory);
}

TEST(MemoryErrors, Messages) {
  using testing::message_of;
  EXPECT_EQ(message_of([] { allocate(Device::cpu, std::size_t(1) << 62); }),
            "memory: the host has no 4611686018427387904 bytes left");
  if (!cuda_available()) {
    EXPECT_EQ(message_of([] { allocate(Device::cuda, 1); }), "memory: no CUDA device: " + cuda_trouble(cuda_device()));
  }
}

}  // namespace
}  // namespace foldgrad::memory
