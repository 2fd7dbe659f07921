#include "engine/cpu/write.h"

#include <gtest/gtest.h>

#include "engine/cpu/elementwise.h"
#include "engine/memory.h"

namespace foldgrad::testing {
namespace {

template <class T>
class WriteCpu : public ::testing::Test {};
using Types = ::testing::Types<float, double, bf16>;
TYPED_TEST_SUITE(WriteCpu, Types);

// Writes ranges of up to 139 elements that begin just below, at and just above the borders of cache lines. The elements
// before and after a range must not change.
TYPED_TEST(WriteCpu, BothWaysWriteTheSameAndNothingElse) {
  using T = TypeParam;
  using Value = compute_t<T>;
  constexpr std::int64_t kSize = 256;
  const auto storage = memory::allocate(Device::cpu, kSize * sizeof(T));
  T* y = static_cast<T*>(storage.get());
  for (const std::int64_t begin : {0, 1, 15, 16, 17, 31, 63, 64}) {
    for (std::int64_t n = 0; n < 140; ++n) {
      for (const bool bypass : {false, true}) {
        std::fill_n(y, kSize, T(-1.0f));
        std::int64_t calls[kSize] = {};
        write_cpu(y, begin, begin + n, bypass, [&calls](std::int64_t i) {
          ++calls[i];
          return Value(i) / 3;
        });
        finish_writes();
        for (std::int64_t i = 0; i < kSize; ++i) {
          const bool inside = begin <= i && i < begin + n;
          ASSERT_EQ(calls[i], inside) << i;
          ASSERT_EQ(Value(y[i]), inside ? Value(T(Value(i) / 3)) : Value(-1))
              << n << " elements beginning at " << begin << ", element " << i;
        }
      }
    }
  }
}

TYPED_TEST(WriteCpu, GradientsAreSetOrAddedTo) {
  using T = TypeParam;
  using Value = compute_t<T>;
  const auto storage = memory::allocate(Device::cpu, 100 * sizeof(T));
  T* y = static_cast<T*>(storage.get());
  for (const GradMode mode : {GradMode::set, GradMode::add}) {
    for (const bool bypass : {false, true}) {
      std::fill_n(y, 100, T(2.0f));
      write_cpu(GradOut<T>{y, mode}, 3, 90, bypass, [](std::int64_t i) { return Value(i); });
      finish_writes();
      for (std::int64_t i = 0; i < 100; ++i) {
        const Value old = mode == GradMode::add ? Value(2) : Value(0);
        ASSERT_EQ(Value(y[i]), i < 3 || i >= 90 ? Value(2) : Value(T(old + Value(i)))) << i;
      }
    }
  }
}

TEST(BypassesCache, CountsBytes) {
  const float* f32 = nullptr;
  EXPECT_FALSE(bypasses_cache(f32, kBypassBytes / 4 - 1));
  EXPECT_TRUE(bypasses_cache(f32, kBypassBytes / 4));
  EXPECT_FALSE(bypasses_cache(GradOut<bf16>(), kBypassBytes / 4));
}

struct Doubled {
  GradOut<float> y;
  const float* x;

  const GradOut<float>& target() const { return y; }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(y.data));
};

TEST(BypassesCache, NotOverAnOperand) {
  float ours[2];
  EXPECT_TRUE(results_bypass_cache(Doubled{{ours}, ours + 1}, kBypassBytes / 4));
  EXPECT_FALSE(results_bypass_cache(Doubled{{ours}, ours + 1}, kBypassBytes / 4 - 1));
  EXPECT_FALSE(results_bypass_cache(Doubled{{ours}, ours}, kBypassBytes / 4));
}

}  // namespace
}  // namespace foldgrad::testing
