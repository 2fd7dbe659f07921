// Tests the ring buffer through which copies to the device go.
#include "engine/cuda/runtime/staging_ring.h"

#include <algorithm>
#include <map>

#include "engine/device.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

struct SlowDevice final : Marks {
  std::uint64_t set() override { return ++last; }
  bool passed(std::uint64_t mark) override { return mark <= done; }
  void wait(std::uint64_t mark) override {
    ++waits;
    done = std::max(done, mark);
  }
  void forget(std::uint64_t mark) override {
    EXPECT_LE(mark, done) << "the device has not passed this mark yet";
    EXPECT_EQ(mark, ++forgotten) << "each mark must be forgotten once, in order";
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
  EXPECT_EQ(upload(30), 0u) << "only 20 bytes are left at the end";
  EXPECT_EQ(device.waits, 1) << "for the copy of the first 40 bytes";
  EXPECT_EQ(upload(10), 30u);
  EXPECT_EQ(device.waits, 1);
  EXPECT_EQ(upload(1), 40u);
  EXPECT_EQ(device.waits, 2);
  device.done = device.last;
  EXPECT_EQ(upload(100), 0u);
  EXPECT_EQ(device.waits, 2) << "the device has finished all copies";
  EXPECT_EQ(host_waits() - before, 2);
}

RC_GTEST_PROP(StagingRing, NeverGivesWhatIsStillBeingCopied, ()) {
  const std::size_t size = *rc::gen::inRange<std::size_t>(1, 200);
  SlowDevice device;
  StagingRing ring(size, device);
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> parts;  // mark: the bytes of its copy
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
