#include "ops/layer_norm/layer_norm.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

OpCase layer_norm_case(std::int64_t rows, std::int64_t columns, double mean = 0, bool large = false) {
  return {.label = fmt::format("{} rows of {} around {}", rows, columns, mean),
          // gamma is random too: with equal entries a backward that misplaces it cannot be told from a right one.
          .operands = {randn({rows, columns}, 1, 1, mean), randn({columns}, 2), randn({columns}, 3)},
          .f = [](const std::vector<Var>& v) { return layer_norm(v[0], v[1], v[2]); },
          .large = large};
}

// Columns around one warp and around one block of 256 threads; enough rows for two blocks of rows on the CPU.
const RegisterOp kLayerNorm({
    .name = "layer_norm",
    .cases = {layer_norm_case(3, 2), layer_norm_case(1, 1), layer_norm_case(2, 31), layer_norm_case(2, 32),
              layer_norm_case(2, 33), layer_norm_case(2, 5, 3.0), layer_norm_case(40, 3), layer_norm_case(0, 8),
              layer_norm_case(3, 256, 0, true), layer_norm_case(3, 512, 0, true), layer_norm_case(1, 255, 0, true),
              layer_norm_case(1, 257, 0, true), layer_norm_case(70, 300, 0, true),
              // Where one form of the CUDA kernels ends, for some element type: packs in a warp, in a block, none.
              layer_norm_case(5, 128, 0, true), layer_norm_case(5, 136, 0, true), layer_norm_case(2, 520, 0, true),
              layer_norm_case(2, 1032, 0, true), layer_norm_case(1, 2051, 0, true), layer_norm_case(1, 2056, 0, true),
              layer_norm_case(1, 4104, 0, true), layer_norm_case(1, 16392, 0, true)},
    .errors =
        {{"layer_norm: gamma must be f32 [8] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [4] on cpu",
          [](Tape& t) {
            layer_norm(t.constant(Tensor::zeros({2, 8}, DType::f32)), t.constant(Tensor::zeros({4}, DType::f32)),
                       t.constant(Tensor::zeros({8}, DType::f32)));
          }},
         {"layer_norm: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
          [](Tape& t) {
            const Var s = t.constant(Tensor::zeros({}, DType::f32));
            layer_norm(s, s, s);
          }},
         {"layer_norm: eps must be positive, got 0",
          [](Tape& t) {
            const Var x = t.constant(Tensor::zeros({8}, DType::f32));
            layer_norm(x, x, x, 0);
          }}},
    // dgamma and dbeta sum up to 70 rows.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 3): mu = 2, sigma2 = 1, and eps = 3 makes rstd = 1 / sqrt(4), so xhat = (-1/2, 1/2).
TEST(LayerNorm, LN_1_LN_2_LN_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var y = layer_norm(tape.constant(Tensor::of<double>({1, 2}, {1, 3}, device)),
                             tape.constant(Tensor::of<double>({2}, {10, 100}, device)),
                             tape.constant(Tensor::of<double>({2}, {5, 7}, device)), /*eps=*/3);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{0, 57}));
  }
}

// With dy = (1, 0), gamma = (2, 1): g = (2, 0), <g> = 1, <g xhat> = -1/2, so dx = (2 - 1 - 1/4, 0 - 1 + 1/4) / 2.
TEST(LayerNorm, LN_4_LN_5_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 2}, {1, 3}, device));
    const Var gamma = tape.variable(Tensor::of<double>({2}, {2, 1}, device));
    const Var beta = tape.variable(Tensor::of<double>({2}, {0, 0}, device));
    tape.backward(layer_norm(x, gamma, beta, /*eps=*/3), Tensor::of<double>({1, 2}, {1, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0.375, -0.375}));
    EXPECT_EQ(tape.grad(gamma).values<double>(), (std::vector<double>{-0.5, 0}));
    EXPECT_EQ(tape.grad(beta).values<double>(), (std::vector<double>{1, 0}));
  }
}

// More rows than there are warps at once. Of sums of 2,100 terms below 10 none is off by more than 2100^2 10 2^-53.
TEST(LayerNorm, LN_5_SumsOverManyRows) {
  for (std::int64_t columns : {3, 8}) {
    const OpCase c = layer_norm_case(2100, columns, 0, true);
    const OpResult want = run_case(c, DType::f64, Device::cpu);
    for (Device device : devices()) {
      const OpResult got = run_case(c, DType::f64, device);
      for (std::size_t k = 0; k < want.grads.size(); ++k)
        EXPECT_TRUE(close(got.grads[k], want.grads[k], 5e-9)) << "operand " << k << " of " << columns << " columns";
    }
  }
}

// E[x^2] - E[x]^2 would leave nothing of a variance of 1 around 1e4 in f32: the second pass does.
TEST(LayerNorm, LN_1_RowsFarFromZeroKeepTheirVariance) {
  const Tensor x = randn({4, 300}, 7, 1, 1e4).to(DType::f32);
  for (Device device : devices()) {
    Tape tape;
    const Var one = tape.constant(Tensor::full({300}, 1, DType::f32, device));
    const Var zero = tape.constant(Tensor::zeros({300}, DType::f32, device));
    const Tensor y = layer_norm(tape.constant(x.to(device)), one, zero).value();
    Tape exact;
    const Var one64 = exact.constant(Tensor::full({300}, 1, DType::f64)),
              zero64 = exact.constant(Tensor::zeros({300}, DType::f64));
    // A unit of f32 is 1e-3 at 1e4; mu is known to a few of them, since it comes from a sum of 300 such values.
    EXPECT_TRUE(close(y, layer_norm(exact.constant(x.to(DType::f64)), one64, zero64).value(), 4e-3));
  }
}

}  // namespace
}  // namespace foldgrad::testing
