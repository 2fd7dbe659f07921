#include "ops/cross_entropy/cross_entropy.h"

#include "engine/memory.h"
#include "ops/linear/linear.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

// Returns a function of {logits, targets}, or of {logits, first targets, second targets, share of the first target}.
OpFunction cross_entropy_of(const CrossEntropyOptions& options) {
  return [=](auto& v) {
    return v.size() == 2 ? cross_entropy(v[0], v[1], options) : cross_entropy(v[0], v[1], v[2], v[3], options);
  };
}

// Returns a case in which every third target is ignored.
OpCase cross_entropy_case(Shape shape, double eps, Reduction reduction) {
  const Tensor targets = random_ids(shape.without(-1), shape[-1], 4);
  for (std::int64_t n = 2; n < targets.size(); n += 3) targets.data<std::int64_t>()[n] = -100;
  return {.label = fmt::format("{}, smoothing {}, {}", shape, eps, reduction == Reduction::sum ? "sum" : "mean"),
          .operands = {randn(shape, 1, 2), targets},
          .f = cross_entropy_of({.label_smoothing = eps, .reduction = reduction})};
}

// Returns a case with two targets per row, which are equal in every third row. The share of the first target is 0, 1/3,
// 2/3 and 1 in turn. In ignored rows, the share is -1, which must have no effect.
OpCase two_targets_case(Shape shape, double eps, Reduction reduction) {
  OpCase c = cross_entropy_case(shape, eps, reduction);
  Tensor second = random_ids(shape.without(-1), shape[-1], 6), lambda = Tensor::empty(second.shape(), DType::f32);
  for (std::int64_t n = 0; n < second.size(); ++n) {
    const std::int64_t first = c.operands[1].data<std::int64_t>()[n];
    if (n % 3 == 0 || first == -100) second.data<std::int64_t>()[n] = first;
    lambda.data<float>()[n] = first == -100 ? -1 : float(n % 4) / 3;
  }
  c.label += ", two targets";
  c.operands.insert(c.operands.end(), {second, lambda});
  return c;
}

Tensor ids(const std::vector<std::int64_t>& values) { return Tensor::of({std::int64_t(values.size())}, values); }
Tensor shares(const std::vector<float>& values) { return Tensor::of({std::int64_t(values.size())}, values); }

OpError targets_error(const char* message, Shape logits, std::vector<std::int64_t> targets,
                      CrossEntropyOptions options = {}) {
  return {message, [=](Tape& t) { cross_entropy(zeros(t, logits), t.constant(ids(targets)), options); }};
}
OpError two_targets_error(const char* message, Tensor second, Tensor lambda) {
  return {message, [=](Tape& t) {
            cross_entropy(zeros(t, 2, 3), t.constant(ids({-100, 1})), t.constant(second), t.constant(lambda));
          }};
}

// The numbers of classes and of rows are below and above a warp and a block of 256 threads, since reductions run over
// the classes of a row and over the rows.
const RegisterOp kCrossEntropy({
    .name = "cross_entropy",
    .cases = {two_targets_case({5, 4}, 0.1, Reduction::mean), two_targets_case({2, 7, 2}, 0, Reduction::sum),
              two_targets_case({2, 33}, 0.3, Reduction::mean), two_targets_case({5, 300}, 0, Reduction::mean),
              cross_entropy_case({4, 5}, 0.1, Reduction::mean), cross_entropy_case({2, 3, 7}, 0.1, Reduction::sum),
              cross_entropy_case({4, 5}, 0, Reduction::sum), cross_entropy_case({6}, 0.3, Reduction::mean),
              cross_entropy_case({2, 1}, 0, Reduction::mean), cross_entropy_case({3, 33}, 0.1, Reduction::mean),
              cross_entropy_case({300, 3}, 0.1, Reduction::mean), cross_entropy_case({5, 300}, 0.1, Reduction::sum),
              // Depending on the dtype, a block needs one round, two or more rounds for the packs of a row.
              two_targets_case({5, 1032}, 0.1, Reduction::mean), cross_entropy_case({2, 9000}, 0.1, Reduction::sum)},
    .errors =
        {targets_error(
             "cross_entropy: targets must be i64 [2] on cpu (logits is f32 [2, 3] on cpu), got i64 [3] on cpu", {2, 3},
             {0, 1, 2}),
         targets_error("cross_entropy: targets must be in [0, 3) or -100, which is ignored, got 3 in row 1", {2, 3},
                       {0, 3}),
         targets_error("cross_entropy: targets must be in [0, 3) or 0, which is ignored, got -1 in row 0", {2, 3},
                       {-1, 0}, {.ignore_index = 0}),
         targets_error("cross_entropy: label_smoothing must be in [0, 1), got 1", {2, 3}, {0, 0},
                       {.label_smoothing = 1}),
         targets_error("cross_entropy: label_smoothing needs at least 2 classes, got 1", {2, 1}, {0, 0},
                       {.label_smoothing = 0.1}),
         targets_error("cross_entropy: logits must have at least 1 class, got [2, 0]", {2, 0}, {0, 0}),
         two_targets_error(
             "cross_entropy: second targets must be i64 [2] on cpu (logits is f32 [2, 3] on cpu), got i64 [3] on cpu",
             ids({0, 1, 2}), shares({0, 1})),
         two_targets_error("cross_entropy: second targets must be in [0, 3), got -100 in row 1", ids({-100, -100}),
                           shares({0, 1})),
         two_targets_error("cross_entropy: second targets must be in [0, 3), got 3 in row 1", ids({3, 3}),
                           shares({0, 1})),
         two_targets_error(
             "cross_entropy: lambda must be f32 [2] on cpu (logits is f32 [2, 3] on cpu), got f32 [1] on cpu",
             ids({0, 1}), shares({1})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got 1.5 in row 1", ids({0, 1}), shares({1, 1.5})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got -0.5 in row 1", ids({0, 1}),
                           shares({1, -0.5})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got nan in row 1", ids({0, 1}), shares({1, NAN}))},
    .f32_roundoffs = 400,
    .bf16_roundoffs = 16,
});

OpResult result_of(const Tensor& logits, std::vector<Tensor> targets, const CrossEntropyOptions& options = {},
                   Device device = Device::cpu, DType dtype = DType::f64) {
  targets.insert(targets.begin(), logits);
  return results_of(cross_entropy_of(options), targets, Tensor::full({}, 1, DType::f64), dtype, device);
}
double loss_of(const Tensor& logits, const std::vector<Tensor>& targets, const CrossEntropyOptions& options = {},
               Device device = Device::cpu, DType dtype = DType::f64) {
  return result_of(logits, targets, options, device, dtype).y.item();
}

// The first row has p = (1/8, 2/8, 5/8) and the target 1. eps = 1/2, so eps_i = 1/4 and the target distribution is
// q = (1/4, 1/2, 1/4). The second row is ignored. The third row has p = 1/3 everywhere and the target 0. For the mean,
// dz = (p - q) / 2, and 0 in the ignored row.
TEST(CrossEntropy, CE_1_CE_2_CE_3_CE_4_WorkedByHand) {
  const Tensor logits = numbers({3, 3}, {0, std::log(2), std::log(5), 7, 8, 9, 4, 4, 4}), targets = ids({1, 2, 0});
  const double first = std::log(8) / 4 + std::log(4) / 2 + std::log(1.6) / 4, third = std::log(3);
  CrossEntropyOptions options{.label_smoothing = 0.5, .ignore_index = 2};
  expect_by_hand({.operands = {logits, targets},
                  .y = {(first + third) / 2},
                  .dy = {1},
                  .gradients = {{-1 / 16., -1 / 8., 3 / 16., 0, 0, 0, (1 / 3. - 0.5) / 2, 1 / 24., 1 / 24.}},
                  .tolerance = 1e-15},
                 cross_entropy_of(options));
  options.reduction = Reduction::sum;
  expect_by_hand({.operands = {logits, targets}, .y = {first + third}, .tolerance = 1e-15}, cross_entropy_of(options));
}

TEST(CrossEntropy, CE_3_NothingCountedGivesZeros) {
  for (Reduction reduction : {Reduction::sum, Reduction::mean})
    expect_by_hand(
        {.operands = {randn({2, 4}, 1), ids({-100, -100})}, .y = {0}, .dy = {1}, .gradients = {std::vector<double>(8)}},
        cross_entropy_of({.label_smoothing = 0.1, .reduction = reduction}));
}

// For logits far from zero, the loss must be accurate in every precision. The loss of bf16 logits is f32.
TEST(CrossEntropy, CE_1_LargeLogits) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      EXPECT_NEAR(loss_of(numbers({1, 3}, {-1e4, 1e4, 1e4}), {ids({1})}, {}, device, dtype), std::log(2), 1e-7);
}

TEST(CrossEntropy, CE_2_ClassesOfMinusInfinityAreAllowedWithoutSmoothing) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits = numbers({1, 3}, {-infinity, 1, 1});
  for (Device device : devices()) {
    EXPECT_NEAR(loss_of(logits, {ids({1})}, {}, device), std::log(2), 1e-15);
    EXPECT_EQ(loss_of(logits, {ids({1})}, {.label_smoothing = 0.1}, device), infinity);
  }
}

TEST(CrossEntropy, CE_5_TargetsOutsideMakeTheLossNaNOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA";
  const Tensor logits = Tensor::zeros({2, 3}, DType::f64);
  for (std::int64_t outside : {-1, 3}) {
    EXPECT_TRUE(std::isnan(loss_of(logits, {ids({0, outside})}, {}, Device::cuda, DType::f32)));
    EXPECT_TRUE(std::isnan(
        loss_of(logits, {ids({0, 1}), ids({0, outside}), shares({0.5, 0.5})}, {}, Device::cuda, DType::f32)));
  }
}

// The passes may allocate the logits' gradient and a few numbers per row, but not a second matrix for the
// probabilities.
TEST(CrossEntropy, NeedsNoMemoryForProbabilities) {
  for (const Device device : devices()) {
    const Tensor z = Tensor::zeros({64, 4096}, DType::f32, device);
    const Tensor targets = Tensor::zeros({64}, DType::i64, device);
    memory::release_cache(device);  // cached blocks of earlier tests could be larger than requested
    const std::size_t before = memory::statistics(device).current;
    memory::reset_peak(device);
    Tape tape;
    const Var v = tape.variable(z);
    tape.backward(cross_entropy(v, tape.constant(targets), {.label_smoothing = 0.1}));
    // The allocator rounds sizes up by at most a quarter. The rest of the factor is for the numbers per row.
    EXPECT_LT(double(memory::statistics(device).peak - before), 1.3 * double(z.bytes())) << name(device);
  }
}

// If nothing else holds the logits, their gradient overwrites them, which saves a matrix. The gradient of the previous
// layer must have the same bits as if the logits were held.
TEST(CrossEntropy, TheGradientTakesTheMemoryOfLogitsThatNobodyHolds) {
  for (const Device device : devices())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto on_device = [&](Shape shape, unsigned seed) { return randn(shape, seed).to(dtype).to(device); };
      const Tensor hidden = on_device({256, 8}, 1), table = on_device({2048, 8}, 2),
                   targets = Tensor::zeros({256}, DType::i64, device);
      const double bytes = 256 * 2048 * double(size_of(dtype));
      std::vector<double> gradients[2];
      double peaks[2];
      for (const bool held : {false, true}) {
        memory::release_cache(device);
        const std::size_t before = memory::statistics(device).current;
        Tape tape;
        const Var x = tape.variable(hidden);
        Var logits = linear(x, tape.variable(table));
        memory::reset_peak(device);
        const Var loss = cross_entropy(logits, tape.constant(targets), {.label_smoothing = 0.1});
        if (!held) logits = Var();
        tape.backward(loss);
        peaks[held] = double(memory::statistics(device).peak - before);
        gradients[held] = tape.grad(x).to(DType::f64).values<double>();
      }
      EXPECT_EQ(gradients[0], gradients[1]) << name(device);
      // Without a holder, there must be one matrix instead of two, in addition to the memory of linear()'s products.
      // With AMX, oneDNN allocates two thirds of a matrix for the products in bf16.
      EXPECT_GT(peaks[1] - peaks[0], 0.9 * bytes) << name(device);
      EXPECT_LT(peaks[0], 1.9 * bytes) << name(device);
    }
}

// Row 0 has p = (1/8, 2/8, 5/8) and the targets 1 and 2. Row 1 has p = 1/3 everywhere and the targets 2 and 0. Row 2
// has the p of row 0, and both of its targets are 1. Row 3 is ignored. eps = 1/2, so eps_i = 1/4, and a class with
// share s has q = s / 4 + 1/4.
TEST(CrossEntropy, CE_5_CE_6_WorkedByHand) {
  const double ln2 = std::log(2), ln5 = std::log(5), ln8 = std::log(8), ln3 = std::log(3);
  const double of_1 = ln8 / 4 + 2 * ln2 / 2 + (ln8 - ln5) / 4, of_2 = ln8 / 4 + 2 * ln2 / 4 + (ln8 - ln5) / 2,
               sum = 0.25 * of_1 + 0.75 * of_2 + ln3 + of_1;
  const std::vector<Tensor> operands = {numbers({4, 3}, {0, ln2, ln5, 4, 4, 4, 0, ln2, ln5, 1, 2, 3}),
                                        ids({1, 2, 1, -100}), ids({2, 0, 1, 99}), shares({0.25, 0.5, 0.75, 9})};
  expect_by_hand({.operands = operands,
                  .y = {sum},
                  .dy = {1},
                  .gradients = {{-1 / 8., -1 / 16., 3 / 16., 1 / 3. - 3 / 8., 1 / 3. - 1 / 4., 1 / 3. - 3 / 8., -1 / 8.,
                                 -1 / 4., 3 / 8., 0, 0, 0}},
                  .tolerance = 1e-15},
                 cross_entropy_of({.label_smoothing = 0.5, .reduction = Reduction::sum}));
  expect_by_hand({.operands = operands, .y = {sum / 3}, .tolerance = 1e-15},
                 cross_entropy_of({.label_smoothing = 0.5}));
}

// If one target has a share of 1, the loss and gradient are bit-identical to those with only this target, even if the
// other target's logit is -infinity.
TEST(CrossEntropy, CE_5_CE_6_AWholeShareIsOneTarget) {
  Tensor logits = randn({20, 7}, 1, 3);
  for (int n = 0; n < 20; ++n) logits.data<double>()[7 * n + 6] = -std::numeric_limits<double>::infinity();
  const Tensor of_six = random_ids({20}, 6, 2), last = Tensor::full({20}, 6, DType::i64);
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto result = [&](const std::vector<Tensor>& targets) {
        return result_of(logits, targets, {}, device, dtype);
      };
      const OpResult want = result({of_six});
      for (const OpResult& got : {result({of_six, last, Tensor::full({20}, 1, DType::f32)}),
                                  result({last, of_six, Tensor::full({20}, 0, DType::f32)})}) {
        EXPECT_TRUE(std::isfinite(got.y.item()));
        EXPECT_TRUE(identical(got.y, want.y));
        EXPECT_TRUE(identical(got.grads[0], want.grads[0]));
      }
    }
}

TEST(CrossEntropy, LambdaHasNoGradient) {
  for (const bool of_logits : {false, true}) {
    Tape tape;
    const Tensor z = randn({1, 3}, 1).to(DType::f32);
    const Var loss = cross_entropy(of_logits ? tape.variable(z) : tape.constant(z), tape.constant(ids({0})),
                                   tape.constant(ids({1})), tape.variable(shares({0.5})));
    EXPECT_EQ(message<std::invalid_argument>([&] { tape.backward(loss); }),
              "cross_entropy: lambda must be a constant, got a value that requires a gradient");
  }
}

}  // namespace
}  // namespace foldgrad::testing
