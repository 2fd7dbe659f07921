// A step of training waits for nothing and takes no memory from the system, whatever normalizes: the host can run ahead
// of the device.
#include <gtest/gtest.h>

#include "engine/memory.h"
#include "tests/train/loop/device_training.h"

namespace foldgrad::testing {
namespace {

class NoWait : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

std::vector<std::string> all_normalizers() {
  std::vector<std::string> names;
  for (const NormalizerInfo& info : normalizers()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Normalizers, NoWait,
                         ::testing::Combine(::testing::ValuesIn(all_normalizers()),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + name(std::get<1>(info.param));
                         });

// All that a step can have in it: dropout, several batches, both ways of clipping, averages of weights and statistics.
TEST_P(NoWait, AStepOfTrainingWaitsForNothing) {
  const auto& [norm, dtype] = GetParam();
  TransformerConfig config = narrow_config(with_dropout(small_config(norm)));
  config.pre_norm = !normalizer_info(norm).post_norm_only;
  DeviceTraining run(
      config,
      {.clip = 1, .agc = 0.01, .accumulate = 2, .dtype = dtype, .average_decay = 0.5, .average_statistics = true});
  for (int n = 0; n < 3; ++n) run.trainer.step();  // the caches fill, and with them the windows of normalizers
  run.trainer.report();                            // until then each step keeps its losses
  const auto from_system = [] {
    return memory::statistics(Device::cpu).system_allocations + memory::statistics(Device::cuda).system_allocations;
  };
  const std::int64_t waits = host_waits();
  const std::uint64_t allocations = from_system();
  run.trainer.step();
  EXPECT_EQ(host_waits(), waits);
  EXPECT_EQ(from_system(), allocations);
  run.trainer.report();  // which reads
  EXPECT_GT(host_waits(), waits);
}

}  // namespace
}  // namespace foldgrad::testing
