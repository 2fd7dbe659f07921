// Tests that training never reads from the device, since a read would wait for all earlier kernels.
#include "tests/models/normalizers/quick_normalizer.h"

namespace foldgrad::testing {
namespace {

TEST(NormalizerDevice, NoStepOfTrainingReadsTheDevice) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const NormalizerInfo& info : normalizers()) {
    Options options = quick(info.name);
    if (info.name == "un") options["filtration"] = "1";
    const auto norm = make_normalizer(info.name, options, "norm", kChannels, DType::f32, Device::cuda);
    // These scales lead un through its warm-up, averages, an outlier, and infinite channels, which are held.
    for (double scale : {1.0, 2.0, 3.0, 4.0, 1e3, double(INFINITY)}) {
      const Tensor x = Tensor::full({2, 5, kChannels}, scale, DType::f32, Device::cuda),
                   dy = Tensor::full(x.shape(), 1, DType::f32, Device::cuda);
      const std::int64_t before = host_waits();
      Tape tape;
      std::vector<Var> penalties;
      const Var y = norm->apply(tape.variable(x), {.training = true, .counted = 8, .penalties = &penalties});
      tape.backward(y, dy);
      EXPECT_EQ(host_waits(), before) << info.name << ", x = " << scale;
    }
    const std::int64_t before = host_waits();
    if (norm->diagnostics().least_variance) {  // reads the statistics from the device
      EXPECT_GT(host_waits(), before) << info.name;
    }
    if (info.name == "un") {
      EXPECT_GE(norm->diagnostics().skips, 2);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
