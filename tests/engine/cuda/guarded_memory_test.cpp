// Tests guarded memory of the emulated device, which only kernels and copies can access.
#include <cstdlib>

#include "engine/memory.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Each test is a death test. Its child process turns the guard on before it allocates device memory.
class GuardedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_emulated()) GTEST_SKIP() << "a GPU guards its memory itself";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

Tensor guarded(std::int64_t n) {
  setenv("FOLDGRAD_GUARD_DEVICE_MEMORY", "1", 1);
  return Tensor::full({n}, 2, DType::f32, Device::cuda);
}

constexpr const char* kMessage = "emulation: the host accessed device memory at 0x";

TEST_F(GuardedMemory, TheHostDiesWhenItReads) {
  EXPECT_DEATH(
      {
        const Tensor x = guarded(100);
        std::exit(x.data<float>()[99] == 2 ? 0 : 1);
      },
      kMessage);
}

TEST_F(GuardedMemory, TheHostDiesWhenItWrites) {
  EXPECT_DEATH(
      {
        const Tensor x = guarded(100);
        accumulate(x, x.clone());
        x.data<float>()[0] = 1;
        std::exit(0);
      },
      kMessage);
}

TEST_F(GuardedMemory, OtherFaultsAreNotBlamedOnIt) {
  const auto elsewhere = [] {
    (void)guarded(1);
    volatile int* nowhere = nullptr;
    std::exit(*nowhere);
  };
  EXPECT_DEATH(elsewhere(), "^[^t]*$|Sanitizer");  // does not match kMessage, which contains a t
}

bool kernels_and_copies_reach_it() {
  const Tensor x = guarded(5000);  // several pages
  Tensor y = x.clone();
  accumulate(x, y);
  y.zero();
  y.copy_from(Tensor::full({5000}, 3, DType::f32));
  Tensor::empty({7000}, DType::f32, Device::cuda);  // another size; its memory returns to the cache
  memory::release_cache(Device::cuda);
  accumulate(y, x);
  return x.values<float>() == std::vector<float>(5000, 4) && y.values<float>() == std::vector<float>(5000, 7);
}

TEST_F(GuardedMemory, KernelsAndCopiesReachIt) {
  EXPECT_EXIT(std::exit(kernels_and_copies_reach_it() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace foldgrad::testing
