#include "ops/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/memory.h"
#include "ops/linear/linear.h"
#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

// Every third target is ignored.
OpCase cross_entropy_case(Shape shape, double eps, Reduction reduction) {
  const Tensor targets = random_ids(shape.without(-1), shape[-1], 4);
  for (std::int64_t n = 2; n < targets.size(); n += 3) targets.data<std::int64_t>()[n] = -100;
  return {.label = fmt::format("{}, smoothing {}, {}", shape, eps, reduction == Reduction::sum ? "sum" : "mean"),
          .operands = {randn(shape, 1, 2), targets},
          .f = [=](auto& v) { return cross_entropy(v[0], v[1], {.label_smoothing = eps, .reduction = reduction}); }};
}

// In every third row of two targets they are the same class; every fourth has the whole share on one side. Of ignored
// rows nothing else is looked at.
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
  c.f = [=](const std::vector<Var>& v) {
    return cross_entropy(v[0], v[1], v[2], v[3], {.label_smoothing = eps, .reduction = reduction});
  };
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

// Classes around one warp and around one block of 256 threads; rows too, for the sum over them.
const RegisterOp kCrossEntropy({
    .name = "cross_entropy",
    .cases = {two_targets_case({5, 4}, 0.1, Reduction::mean), two_targets_case({2, 7, 2}, 0, Reduction::sum),
              two_targets_case({2, 33}, 0.3, Reduction::mean), two_targets_case({5, 300}, 0, Reduction::mean),
              cross_entropy_case({4, 5}, 0.1, Reduction::mean), cross_entropy_case({2, 3, 7}, 0.1, Reduction::sum),
              cross_entropy_case({4, 5}, 0, Reduction::sum), cross_entropy_case({6}, 0.3, Reduction::mean),
              cross_entropy_case({2, 1}, 0, Reduction::mean), cross_entropy_case({3, 33}, 0.1, Reduction::mean),
              cross_entropy_case({300, 3}, 0.1, Reduction::mean), cross_entropy_case({5, 300}, 0.1, Reduction::sum),
              // Packs that end within a round of a block's threads, after one, and after several.
              two_targets_case({5, 1032}, 0.1, Reduction::mean), cross_entropy_case({2, 9000}, 0.1, Reduction::sum)},
    .errors =
        {targets_error("cross_entropy: targets must be i64 [2] on cpu, to go with logits, which is f32 [2, 3] on cpu, "
                       "got i64 [3] on cpu",
                       {2, 3}, {0, 1, 2}),
         targets_error("cross_entropy: targets must be in [0, 3) or -100, which is ignored, got 3 in row 1", {2, 3},
                       {0, 3}),
         targets_error("cross_entropy: targets must be in [0, 3) or 0, which is ignored, got -1 in row 0", {2, 3},
                       {-1, 0}, {.ignore_index = 0}),
         targets_error("cross_entropy: label_smoothing must be in [0, 1), got 1", {2, 3}, {0, 0},
                       {.label_smoothing = 1}),
         targets_error("cross_entropy: label_smoothing needs at least 2 classes, got 1", {2, 1}, {0, 0},
                       {.label_smoothing = 0.1}),
         targets_error("cross_entropy: logits must have at least 1 class, got [2, 0]", {2, 0}, {0, 0}),
         two_targets_error("cross_entropy: second targets must be i64 [2] on cpu, to go with logits, which is f32 "
                           "[2, 3] on cpu, got i64 [3] on cpu",
                           ids({0, 1, 2}), shares({0, 1})),
         two_targets_error("cross_entropy: second targets must be in [0, 3), got -100 in row 1", ids({-100, -100}),
                           shares({0, 1})),
         two_targets_error("cross_entropy: second targets must be in [0, 3), got 3 in row 1", ids({3, 3}),
                           shares({0, 1})),
         two_targets_error("cross_entropy: lambda must be f32 [2] on cpu, to go with logits, which is f32 [2, 3] on "
                           "cpu, got f32 [1] on cpu",
                           ids({0, 1}), shares({1})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got 1.5 in row 1", ids({0, 1}), shares({1, 1.5})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got -0.5 in row 1", ids({0, 1}),
                           shares({1, -0.5})),
         two_targets_error("cross_entropy: lambda must be in [0, 1], got nan in row 1", ids({0, 1}), shares({1, NAN}))},
    .f32_roundoffs = 400,
    .bf16_roundoffs = 16,
});

double loss_of(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, Device device) {
  Tape tape;
  return cross_entropy(tape.constant(logits.to(device)), tape.constant(targets.to(device)), options).value().item();
}

// p = (1/8, 2/8, 5/8), target 1, eps = 1/2, so eps_i = 1/4 and the target distribution is (1/4, 1/2, 1/4).
// The second row is ignored, the third has p = 1/3 everywhere.
// dz = (p - q) / 2 for the mean, and zero for the ignored row.
TEST(CrossEntropy, CE_1_CE_2_CE_3_CE_4_WorkedByHand) {
  const Tensor logits = numbers({3, 3}, {0, std::log(2), std::log(5), 7, 8, 9, 4, 4, 4}), targets = ids({1, 2, 0});
  const double first = std::log(8) / 4 + std::log(4) / 2 + std::log(1.6) / 4, third = std::log(3);
  CrossEntropyOptions options{.label_smoothing = 0.5, .ignore_index = 2};
  const OpFunction f = [&](auto& v) { return cross_entropy(v[0], v[1], options); };
  expect_by_hand({.operands = {logits, targets},
                  .y = {(first + third) / 2},
                  .dy = {1},
                  .gradients = {{-1 / 16., -1 / 8., 3 / 16., 0, 0, 0, (1 / 3. - 0.5) / 2, 1 / 24., 1 / 24.}},
                  .tolerance = 1e-15},
                 f);
  options.reduction = Reduction::sum;
  expect_by_hand({.operands = {logits, targets}, .y = {first + third}, .tolerance = 1e-15}, f);
}

TEST(CrossEntropy, CE_3_NothingCountedGivesZeros) {
  for (Reduction reduction : {Reduction::sum, Reduction::mean})
    expect_by_hand(
        {.operands = {randn({2, 4}, 1), ids({-100, -100})}, .y = {0}, .dy = {1}, .gradients = {std::vector<double>(8)}},
        [&](auto& v) { return cross_entropy(v[0], v[1], {.label_smoothing = 0.1, .reduction = reduction}); });
}

// Far from zero the loss keeps its digits, in f32 and for f32 losses of bf16 logits.
TEST(CrossEntropy, CE_1_LargeLogits) {
  const Tensor logits = Tensor::of<double>({1, 3}, {-1e4, 1e4, 1e4}), target = Tensor::of<std::int64_t>({1}, {1});
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      EXPECT_NEAR(loss_of(logits.to(dtype), target, {}, device), std::log(2), 1e-7);
}

TEST(CrossEntropy, CE_2_ClassesOfMinusInfinityAreAllowedWithoutSmoothing) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits = Tensor::of<double>({1, 3}, {-infinity, 1, 1}), target = Tensor::of<std::int64_t>({1}, {1});
  for (Device device : devices()) {
    EXPECT_NEAR(loss_of(logits, target, {}, device), std::log(2), 1e-15);
    EXPECT_EQ(loss_of(logits, target, {.label_smoothing = 0.1}, device), infinity);
  }
}

TEST(CrossEntropy, TargetsOutsideMakeTheLossNaNOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA";
  for (std::int64_t outside : {-1, 3})
    EXPECT_TRUE(std::isnan(
        loss_of(Tensor::zeros({2, 3}, DType::f32), Tensor::of<std::int64_t>({2}, {0, outside}), {}, Device::cuda)));
}

// Beside the logits there is their gradient and a few numbers per row, and no second matrix of probabilities.
TEST(CrossEntropy, NeedsNoMemoryForProbabilities) {
  for (const Device device : devices()) {
    const Tensor z = Tensor::zeros({64, 4096}, DType::f32, device);
    const Tensor targets = Tensor::zeros({64}, DType::i64, device);
    memory::release_cache(device);  // of earlier tests, whose blocks may be larger than asked for
    const std::size_t before = memory::statistics(device).current;
    memory::reset_peak(device);
    Tape tape;
    const Var v = tape.variable(z);
    tape.backward(cross_entropy(v, tape.constant(targets), {.label_smoothing = 0.1}));
    // A quarter on top: the allocator rounds sizes up by as much.
    EXPECT_LT(double(memory::statistics(device).peak - before), 1.3 * double(z.bytes())) << name(device);
  }
}

// Logits that nobody holds become their gradient, and the layer before them gets the same bits as of logits that are
// held. Beside them everything is small.
TEST(CrossEntropy, TheGradientTakesTheMemoryOfLogitsThatNobodyHolds) {
  for (const Device device : devices())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto on_device = [&](Shape shape, unsigned seed) { return randn(shape, seed).to(dtype).to(device); };
      const Tensor hidden = on_device({256, 8}, 1), table = on_device({4096, 8}, 2),
                   targets = Tensor::zeros({256}, DType::i64, device);
      const double bytes = 256 * 4096 * double(size_of(dtype));
      std::vector<double> gradients[2];
      double peaks[2];
      for (const bool held : {false, true}) {
        memory::release_cache(device);
        memory::reset_peak(device);
        const std::size_t before = memory::statistics(device).current;
        Tape tape;
        const Var x = tape.variable(hidden);
        Var logits = linear(x, tape.variable(table));
        const Var loss = cross_entropy(logits, tape.constant(targets), {.label_smoothing = 0.1});
        if (!held) logits = Var();
        tape.backward(loss);
        peaks[held] = double(memory::statistics(device).peak - before);
        gradients[held] = tape.grad(x).to(DType::f64).values<double>();
      }
      EXPECT_EQ(gradients[0], gradients[1]) << name(device);
      // One matrix in place of two; the allocator rounds up by a quarter.
      EXPECT_LT(peaks[0], 1.5 * bytes) << name(device);
      EXPECT_GT(peaks[1], 1.9 * bytes) << name(device);
    }
}

// [CE-2] is the cross entropy against the smoothed distribution, and without smoothing the usual one; a shift of a row
// changes nothing.
RC_GTEST_PROP(CrossEntropy, CE_2_EqualsTheSumOverTheTargetDistribution, ()) {
  const auto V = *rc::gen::inRange<std::int64_t>(2, 80);
  const auto t = *rc::gen::inRange<std::int64_t>(0, V);
  const double eps = *rc::gen::element(0.0, 0.1, 0.9), shift = *rc::gen::element(0.0, -30.0, 1000.0);
  const Tensor z = randn({1, V}, *rc::gen::inRange(0u, 1000u), 3);
  double sum = 0, want = 0;
  for (double v : z.values<double>()) sum += std::exp(v);
  for (std::int64_t v = 0; v < V; ++v)
    want -= (v == t ? 1 - eps : eps / double(V - 1)) * (z.data<double>()[v] - std::log(sum));
  for (std::int64_t v = 0; v < V; ++v) z.data<double>()[v] += shift;
  const double got = loss_of(z, Tensor::of<std::int64_t>({1}, {t}), {.label_smoothing = eps}, Device::cpu);
  RC_ASSERT(std::abs(got - want) <= 1e-11 * (1 + std::abs(want)));
}

}  // namespace
}  // namespace foldgrad::testing
