// Tests the number of kernel launches in a training step, as the emulation counts them. docs/cuda.md lists them by
// kernel.
#if defined(FOLDGRAD_EMULATE) && defined(FOLDGRAD_FAST)
#include <gtest/gtest.h>

#include "emulation/cuda_emulation.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

struct Launches {
  int all = 0;
  int of_biases = 0;  // for biases and their gradients; cuBLASLt computes these within products
};

// Counts the launches of a bf16 step with 6 + 6 layers, dropout and clipping.
Launches of_a_step(const std::string& normalizer) {
  TransformerConfig config = with_dropout(small_config(normalizer));
  config.encoder_layers = config.decoder_layers = 6;
  config.width = config.ffn_width = 16;
  TinyTraining run(config, 3, {.clip = 1, .dtype = DType::bf16}, Adam{}, 5e-3, DType::f32, copies(26, 1000),
                   Device::cuda);
  run.trainer.step();  // this step also allocates the gradients
  run.trainer.report();
  const emulation::RecordLaunches record;
  run.trainer.step();
  Launches launches;
  for (const emulation::Launch& launch : record.all()) {
    ++launches.all;
    launches.of_biases += launch.kernel == "gemm: bias" || launch.kernel == "totals of columns";
  }
  return launches;
}

// If you change one of these numbers, also change the tables in docs/cuda.md and bench/step_model.py.
TEST(Launches, OfAStep) {
  const Launches ln = of_a_step("ln"), un = of_a_step("un");
  EXPECT_EQ(ln.all, 728);
  EXPECT_EQ(un.all, 888);
  EXPECT_EQ(ln.of_biases, 54 + 108);
  EXPECT_EQ(un.of_biases, 54 + 108);
}

}  // namespace
}  // namespace foldgrad::testing
#endif
