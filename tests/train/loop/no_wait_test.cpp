// Tests that a training step, with any normalizer, neither waits for the device nor allocates memory from the system.
// So the host can run ahead of the device.
#include <gtest/gtest.h>

#include "engine/memory.h"
#include "tests/models/normalizers/quick_normalizer.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

class NoWait : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

// Returns every normalizer with f32, and two of them also with bf16. Two suffice: on the host, training in bf16 differs
// from training in f32 only outside the normalizers.
std::vector<std::tuple<std::string, DType>> steps() {
  std::vector<std::tuple<std::string, DType>> all{{"ln", DType::bf16}, {"un", DType::bf16}};
  for (const NormalizerInfo& info : normalizers()) all.push_back({info.name, DType::f32});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalizers, NoWait, ::testing::ValuesIn(steps()), [](const auto& info) {
  return std::get<0>(info.param) + "_" + name(std::get<1>(info.param));
});

// The step uses all features: dropout, several batches, both kinds of clipping, averages of weights and of statistics.
TEST_P(NoWait, AStepOfTrainingWaitsForNothing) {
  const auto& [norm, dtype] = GetParam();
  TransformerConfig config = with_dropout(small_config(norm));
  config.width = config.ffn_width = kChannels, config.heads = 2;
  config.normalizer_options = quick(norm);
  if (norm == "un") config.normalizer_options["filtration"] = "1";
  config.pre_norm = !normalizer_info(norm).post_norm_only;
  // Every step trains on the same batch, so that all steps need the same memory. The batch has only two sentences, and
  // the model is as narrow as possible, since emulated threads are slow.
  TinyTraining run(
      config, 3,
      {.clip = 1, .agc = 0.01, .accumulate = 2, .dtype = dtype, .average_decay = 0.5, .average_statistics = true},
      Adam{}, 5e-3, DType::f32, copies(26, 1000), Device::cuda);
  ASSERT_EQ(run.batches.per_epoch(), 1);
  for (int n = 0; n < 2; ++n) run.trainer.step();  // these steps fill the caches and the windows of normalizers
  run.trainer.report();                            // frees the losses, which steps keep until a report
  const auto from_system = [] {
    return memory::statistics(Device::cpu).system_allocations + memory::statistics(Device::cuda).system_allocations;
  };
  const std::int64_t waits = host_waits();
  const std::uint64_t allocations = from_system();
  run.trainer.step();
  EXPECT_EQ(host_waits(), waits);
  EXPECT_EQ(from_system(), allocations);
  run.trainer.report();  // reads from the device, so it waits
  EXPECT_GT(host_waits(), waits);
}

}  // namespace
}  // namespace foldgrad::testing
