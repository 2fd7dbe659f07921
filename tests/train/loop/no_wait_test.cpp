// A step of training waits for nothing and takes no memory from the system, whatever normalizes: the host can run ahead
// of the device.
#include <gtest/gtest.h>

#include "engine/memory.h"
#include "models/normalizers/normalizer.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

// Returns options of a normalizer with which a few steps reach all that it does.
std::map<std::string, std::string> hasty_options(const NormalizerInfo& info, std::int64_t channels) {
  std::map<std::string, std::string> options;
  for (const NormalizerOption& option : info.options) {
    if (option.name == "warmup" || option.name == "window") options[option.name] = "2";
    if (option.name == "filtration") options[option.name] = "1";
    if (option.name == "groups") options[option.name] = std::to_string(channels / 2);
  }
  return options;
}

TransformerConfig narrow_config(TransformerConfig config) {
  config.width = config.ffn_width = 8, config.heads = 2;
  config.normalizer_options = hasty_options(normalizer_info(config.normalizer), config.width);
  return config;
}

class NoWait : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

// Returns all normalizers in f32, and two in bf16: for bf16 no normalizer does anything else on the host; the rest of a
// step does.
std::vector<std::tuple<std::string, DType>> steps() {
  std::vector<std::tuple<std::string, DType>> all{{"ln", DType::bf16}, {"un", DType::bf16}};
  for (const NormalizerInfo& info : normalizers()) all.push_back({info.name, DType::f32});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalizers, NoWait, ::testing::ValuesIn(steps()), [](const auto& info) {
  return std::get<0>(info.param) + "_" + name(std::get<1>(info.param));
});

// All that a step can have in it: dropout, several batches, both ways of clipping, averages of weights and statistics.
TEST_P(NoWait, AStepOfTrainingWaitsForNothing) {
  const auto& [norm, dtype] = GetParam();
  TransformerConfig config = narrow_config(with_dropout(small_config(norm)));
  config.pre_norm = !normalizer_info(norm).post_norm_only;
  // One batch that comes again and again, so that every step takes the same memory. It is of two sentences, and the
  // model as narrow as can be: an emulated thread is a slow one.
  TinyTraining run(
      config, 3,
      {.clip = 1, .agc = 0.01, .accumulate = 2, .dtype = dtype, .average_decay = 0.5, .average_statistics = true},
      Adam{}, 5e-3, DType::f32, copies(26, 1000), Device::cuda);
  ASSERT_EQ(run.batches.per_epoch(), 1);
  for (int n = 0; n < 2; ++n) run.trainer.step();  // the caches fill, and with them the windows of normalizers
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
