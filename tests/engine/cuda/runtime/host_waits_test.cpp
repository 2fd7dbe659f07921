#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

TEST(HostWaits, AreCountedWhereTheHostNeedsTheDevice) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  std::int64_t before = host_waits();
  const auto waits = [&] { return host_waits() - std::exchange(before, host_waits()); };
  const std::vector<float> values(300, 5);
  Tensor x = Tensor::full({300}, 3, DType::f32, Device::cuda);
  x.zero();
  x.copy_from(Tensor::of<float>({300}, values));
  EXPECT_EQ(waits(), 0) << "filling, and copying to the device, must not wait";
  EXPECT_EQ(x.values<float>(), values);
  EXPECT_EQ(waits(), 1) << "a copy to the host waits once";
  cuda_synchronize();
  EXPECT_EQ(waits(), 1) << "cuda_synchronize() waits once";
}

}  // namespace
}  // namespace foldgrad::testing
