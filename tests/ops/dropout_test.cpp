#include "ops/dropout/dropout.h"

#include <array>

#include "ops/activation/activation.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

const Random kRandom{0x0123456789abcdef, 5, 17};

OpFunction dropout_of(double p) {
  return [p](auto& v) { return dropout(v[0], p, kRandom); };
}
OpCase dropout_case(const Shape& shape, double p) {
  return random_case({shape}, fmt::format("{}, p = {}", shape, p), dropout_of(p));
}

// The sizes are below and above three units: the 8 elements of a Philox block, the 256 elements whose random bits the
// CPU generates at once, and the 8 * 256 elements of a CUDA block in bf16.
const RegisterOp kDropout({
    .name = "dropout",
    .cases = {dropout_case({2, 3}, 0.5), dropout_case({}, 0.3), dropout_case({7}, 0.1), dropout_case({130}, 0.3),
              dropout_case({2051}, 0.1), dropout_case({5000}, 0.9)},
    .errors = {error_of_zeros("dropout: p must be in [0, 1), got 1", {{3}}, dropout_of(1)),
               error_of_zeros("dropout: p must be in [0, 1), got -0.1", {{3}}, dropout_of(-0.1)),
               error_of_zeros("dropout: p must be in [0, 1), got nan", {{3}}, dropout_of(NAN)),
               error_of_zeros("dropout: x must be f32, f64 or bf16, got i64 [3] on cpu", {{3}}, dropout_of(0.5),
                              DType::i64)},
    .f32_roundoffs = 4,
});

OpFunction fused_of(double p, const DropPath& path = {}) {
  return [=](auto& v) { return bias_dropout_residual(v[0], v[1], v[2], p, kRandom, path); };
}
OpCase fused_case(std::int64_t rows, std::int64_t columns, double p) {
  return random_case({{rows, columns}, {columns}, {rows, columns}},
                     fmt::format("{} rows of {}, p = {}", rows, columns, p), fused_of(p));
}
OpError fused_error(const char* message, const Shape& bias, const Shape& residual, double p) {
  return error_of_zeros(message, {{2, 8}, bias, residual}, fused_of(p));
}
// Makes a case that drops each element with probability p, and each sample with probability 1/2. A sample has shape[1]
// rows, or one row if x is a matrix.
OpCase path_case(const Shape& shape, double p) {
  const std::int64_t rows = shape.rank() > 2 ? shape[1] : 1;
  return random_case({shape, {shape[-1]}, shape}, fmt::format("{}, p = {}, drop path", shape, p),
                     fused_of(p, {.p = 0.5, .random = {7, 8, 9}, .rows = rows}));
}
OpError path_error(const char* message, std::int64_t rows, double p) {
  return error_of_zeros(message, {{2, 8}, {8}, {2, 8}}, fused_of(0, {.p = p, .rows = rows}));
}
const RegisterOp kFused({
    .name = "bias_dropout_residual",
    .cases = {fused_case(3, 2, 0.5), fused_case(1, 1, 0.3), fused_case(2, 33, 0.1), fused_case(40, 3, 0.5),
              fused_case(3, 5, 0), fused_case(2, 257, 0.3), fused_case(70, 75, 0.1), fused_case(3, 300, 0),
              path_case({4, 2, 3}, 0.5), path_case({5, 7}, 0), path_case({4, 0}, 0.5), path_case({4, 0}, 0),
              path_case({0, 3}, 0.5), path_case({6, 3, 41}, 0.1)},
    .errors =
        {fused_error("bias_dropout_residual: bias must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                     {4}, {2, 8}, 0.1),
         fused_error(
             "bias_dropout_residual: residual must be f32 [2, 8] on cpu (x is f32 [2, 8] on cpu), got f32 [16] on cpu",
             {8}, {16}, 0.1),
         fused_error("bias_dropout_residual: p must be in [0, 1), got 1.5", {8}, {2, 8}, 1.5),
         path_error("bias_dropout_residual: the drop path's p must be in [0, 1), got 1", 1, 1),
         path_error("bias_dropout_residual: the drop path's p must be in [0, 1), got -0.5", 1, -0.5),
         path_error("bias_dropout_residual: drop path needs whole samples of 3 rows, got 2 rows", 3, 0.5)},
    .f32_roundoffs = 100,  // dbias sums up to 70 rows
    .bf16_roundoffs = 16,
});

// Computes the mask by definition, one element at a time. p = 3/4 gives the threshold 3 * 2^14 and the scale 4.
TEST(Dropout, DO_1_DO_2_DO_3_FollowTheBits) {
  const std::int64_t n = 5000;  // more than the 4096 elements of a block of the CPU's loop
  const Tensor x = randn({n}, 1);
  for (Device device : devices()) {
    const OpResult all = results_of(dropout_of(0.75), {x}, x, DType::f64, device);
    const std::vector<double> got = all.y.values<double>(), grad = all.grads[0].values<double>();
    for (std::int64_t i = 0; i < n; ++i) {
      const bool keep = kRandom.bits16(std::uint64_t(i)) >= 0xC000u;
      EXPECT_EQ(got[std::size_t(i)], keep ? 4 * x.data<double>()[i] : 0) << i;
      EXPECT_EQ(grad[std::size_t(i)], keep ? 4 * x.data<double>()[i] : 0) << i;
    }
  }
}

// Compares the operation with masks that are computed by definition, one element and one sample at a time. Elements are
// dropped with probability 3/4, and samples with probability `path_p`. If the bias is a constant, another loop computes
// dx.
void expect_definition(std::int64_t samples, std::int64_t steps, std::int64_t columns, double path_p, bool constant,
                       Device device) {
  const DropPath path{.p = path_p, .random = {11, 12, 13}, .rows = steps};
  const Tensor x = randn({samples * steps, columns}, 1), bias = randn({columns}, 2), residual = randn(x.shape(), 3),
               dy = randn(x.shape(), 4);
  Tape tape;
  const Tensor b = bias.to(device);
  const Var xv = tape.variable(x.to(device)), bv = constant ? tape.constant(b) : tape.variable(b);
  const Var rv = tape.variable(residual.to(device));
  const Var y = bias_dropout_residual(xv, bv, rv, 0.75, kRandom, path);
  tape.backward(y, dy.to(device));
  const std::vector<double> got = y.value().values<double>(), dx = tape.grad(xv).values<double>();
  std::vector<double> db(columns);
  int kept = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t sample = i / (steps * columns);
    const double m = path_p == 0 ? 1 : path.random.bits16(std::uint64_t(sample)) >= 0x8000u ? 2 : 0;
    const double keep = kRandom.bits16(std::uint64_t(i)) >= 0xC000u ? 4 * m : 0;
    EXPECT_EQ(got[i], residual.data<double>()[i] + keep * (x.data<double>()[i] + bias.data<double>()[i % columns]));
    EXPECT_EQ(dx[i], keep * dy.data<double>()[i]);
    db[i % columns] += keep * dy.data<double>()[i];
    kept += m > 0;
  }
  EXPECT_TRUE(0 < kept && (path_p == 0 || kept < x.size()));
  EXPECT_TRUE(identical(tape.grad(rv).to(Device::cpu), dy));
  if (!constant) {
    EXPECT_TRUE(close(tape.grad(bv), Tensor::of({columns}, db), 1e-13));
  }
}

// Rows end at various places within the 256 elements whose random bits the CPU generates at once.
TEST(BiasDropoutResidual, DO_4_DO_5_DO_6_FollowTheBits) {
  for (Device device : devices())
    for (auto [samples, steps, columns] : {std::array{40, 3, 7}, {20, 1, 299}, {9, 2, 128}, {16, 8, 1}})
      for (double path_p : {0.0, 0.5})
        for (bool constant : {false, true}) {
          SCOPED_TRACE(fmt::format("{} samples of {} rows of {}, drop path {}", samples, steps, columns, path_p));
          expect_definition(samples, steps, columns, path_p, constant, device);
        }
}

TEST(Dropout, NothingIsDroppedAtZero) {
  Tape tape;
  const Var x = tape.variable(randn({10}, 1));
  EXPECT_EQ(dropout(x, 0, kRandom).id(), x.id());
}

TEST(Dropout, EverythingIsDroppedNextToOne) {
  Tape tape;
  const Tensor y = dropout(tape.constant(Tensor::full({1000}, 1, DType::f32)), 1 - 1e-12, kRandom).value();
  for (float value : y.values<float>()) EXPECT_EQ(value, 0);
}

OpCase drop_case(Activation activation, std::int64_t rows, std::int64_t columns, double p) {
  // Keeps the sum away from relu's kink at 0: |x| is at least 0.1, and the biases (standard deviation 0.02) are
  // smaller.
  return {.label = fmt::format("{} of {} rows of {}, p {}", name(activation), rows, columns, p),
          .operands = {randn_off_zero({rows, columns}, 1, 0.1), randn({columns}, 2, 0.02)},
          .f = [=](const std::vector<Var>& v) { return bias_activation_dropout(v[0], v[1], activation, p, kRandom); }};
}
std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (Activation a : kActivations) all.push_back(drop_case(a, 3, 3, 0.4));
  for (auto [rows, columns] : {std::pair{0, 3}, {1, 31}, {2, 33}, {40, 3}, {3, 16}})
    all.push_back(drop_case(Activation::gelu, rows, columns, 0.25));
  all.push_back(drop_case(Activation::relu, 2, 8, 0));
  all.push_back(drop_case(Activation::relu, 70, 130, 0.1));
  return all;
}

const RegisterOp kSpec({
    .name = "bias_activation_dropout",
    .cases = cases(),
    .errors = {{"bias_activation_dropout: bias must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                [](Tape& t) { bias_activation_dropout(zeros(t, 2, 8), zeros(t, 4), Activation::relu, 0.5, kRandom); }},
               {"bias_activation_dropout: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { bias_activation_dropout(zeros(t), zeros(t), Activation::relu, 0.5, kRandom); }},
               {"bias_activation_dropout: p must be in [0, 1), got 1",
                [](Tape& t) { bias_activation_dropout(zeros(t, 2), zeros(t, 2), Activation::relu, 1, kRandom); }}},
    .bf16_roundoffs = 16,  // sums of 70 rows
});

// A GPU compiler may fuse the multiplication in a term of dbias with the addition to the sum, which changes the
// rounding. So on CUDA, the tolerance is half an epsilon for each of 20 terms of magnitude 3 or less.
TEST(BiasActivationDropout, ACT_9_HasTheBitsOfTwoOperations) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (Activation a : kActivations)
        for (auto [rows, columns] : {std::pair{1, 1}, {5, 33}, {9, 64}, {20, 264}}) {
          const auto run = [&](const OpFunction& f) {
            return results_of(f, {randn({rows, columns}, 1), randn({columns}, 2)}, randn({rows, columns}, 3), dtype,
                              device);
          };
          const OpResult want = run([&](auto&v) { return dropout(bias_activation(v[0], v[1], a), 0.3, kRandom); }),
                         got = run([&](auto&v) { return bias_activation_dropout(v[0], v[1], a, 0.3, kRandom); });
          const std::string what =
              fmt::format("{} of {} on {}, [{}, {}]", name(a), name(dtype), name(device), rows, columns);
          EXPECT_TRUE(identical(got.y, want.y)) << what;
          EXPECT_TRUE(identical(got.grads[0], want.grads[0])) << what;
          const double epsilon = dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : 0x1p-7;
          EXPECT_TRUE(device == Device::cpu ? identical(got.grads[1], want.grads[1])
                                            : close(got.grads[1], want.grads[1], 30 * epsilon))
              << what;
        }
}

}  // namespace
}  // namespace foldgrad::testing
