// Statistics that are taken while a sum is formed, and a gradient that its backward pass adds: the same bits as those
// of passes of their own.
#include "ops/arithmetic/arithmetic.h"
#include "ops/channel_norm/channel_statistics.h"
#include "ops/dropout/dropout.h"
#include "tests/harness/traffic.h"
#include "tests/ops/channel_norm_fixture.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/launch_counts.h"
#endif

namespace foldgrad::testing {
namespace {

constexpr Random kDropped{.seed = 1, .stream = 2, .step = 3}, kPath{.seed = 1, .stream = 4, .step = 3};

struct SumCase {
  const char* label;
  ChannelNormOptions options;
  Shape shape;
  bool masked = false;
  double dropout = 0, drop_path = 0;
  std::string constants = {};  // operands that get no gradient: x, b(ias), r(esidual)
  bool goes_on = true;         // whether the sum is also what the result is added to
};

ChannelNormOptions mabn() { return with_warmup(ChannelNormOptions::mabn_released(), 0); }

// Around the blocks of 64 rows, in packs and column by column.
const SumCase kSumCases[] = {
    {"un", filtered(Granularity::layer_sum), {3, 50, 16}, true, 0.3, 0.5},
    {"un with an odd width", filtered(Granularity::channel), {130, 5}, true, 0.3},
    {"un with padding", with_warmup(ChannelNormOptions::un_released(), 0), {2, 65, 24}, true},
    {"un with more columns than a strip", filtered(Granularity::pooled), {70, 520}, false, 0.1},
    {"mabn", mabn(), {64, 8}, true, 0.2},
    {"qmbn of one row", ChannelNormOptions::qmbn(), {1, 8}},
    {"bn", ChannelNormOptions::bn(), {3, 50, 16}, true, 0.3, 0.5},
    {"bn with an odd width", ChannelNormOptions::bn(), {130, 5}, true, 0.3},
    {"un with a bias that is not trained", ChannelNormOptions::un(), {20, 16}, false, 0.3, 0, "b"},
    {"un with a branch that is not trained", ChannelNormOptions::un(), {20, 16}, false, 0.3, 0, "x"},
    {"un with nothing but the stream", ChannelNormOptions::un(), {20, 16}, false, 0.3, 0, "xb"},
    {"un with nothing but the branch", ChannelNormOptions::un(), {20, 16}, false, 0.3, 0, "r"},
    {"un of a sum that goes no further", ChannelNormOptions::un(), {20, 16}, false, 0.3, 0, "", false},
    {"bn without a row", ChannelNormOptions::bn(), {0, 8}},
};

// All that a step computes.
struct SumStep {
  std::vector<Tensor> all;

  SumStep(const SumCase& c, const Layer& layer, unsigned seed, DType dtype, Device device, bool ahead) {
    const std::int64_t columns = c.shape[-1], rows = c.shape.without(-1).elements();
    const auto operand = [&](Shape shape, unsigned number) {
      return randn(std::move(shape), 10 * seed + number).to(dtype).to(device);
    };
    std::vector<std::uint8_t> real(std::size_t(rows), 1);
    // The first row of a block, and where there are as many, all of the second block.
    for (std::size_t r = 0; r < real.size(); ++r) real[r] = r % 64 != 0 && (r < 64 || r >= 128) && r % 7 != 3;
    const Tensor mask = Tensor::of(c.shape.without(-1), real).to(device);
    Tape tape;
    const auto trained = [&](char name, Tensor value) {
      return c.constants.find(name) == std::string::npos ? tape.variable(value) : tape.constant(value);
    };
    const Var x = trained('x', operand(c.shape, 1)), residual = trained('r', operand(c.shape, 2)),
              bias = trained('b', operand({columns}, 3)), gamma = tape.variable(layer.gamma),
              beta = tape.variable(layer.beta);
    const Tensor* counted = c.masked ? &mask : nullptr;
    std::optional<ChannelStatistics> statistics;
    if (ahead) statistics.emplace(x.value(), layer.gamma, counted, layer.state, layer.options);
    ChannelStatistics* of_sum = ahead ? &*statistics : nullptr;
    const Var sum = bias_dropout_residual(x, bias, residual, c.dropout, kDropped, {c.drop_path, kPath}, of_sum);
    const Var y = channel_norm(sum, gamma, beta, counted, layer.state, layer.options, true, nullptr, of_sum);
    tape.backward(c.goes_on ? add(y, sum) : y, operand(c.shape, 4));
    all = {sum.value(), y.value(), tape.grad(gamma), tape.grad(beta)};
    for (const Var& v : {x, residual, bias})
      if (const Tensor grad = tape.grad(v); grad.defined()) all.push_back(grad);
  }
};

void expect_same_bits(const SumCase& c, DType dtype, Device device) {
  const std::string what = fmt::format("{}, {} on {}", c.label, name(dtype), name(device));
  const auto layer = [&] {
    Layer made(c.options, c.shape[-1], device, dtype == DType::f64 ? dtype : DType::f32);
    made.gamma = made.gamma.to(dtype), made.beta = made.beta.to(dtype);
    return made;
  };
  const Layer apart = layer(), ahead = layer();
  for (unsigned t = 1; t <= 6; ++t) {  // the windows are full, and averages are used
    const SumStep a(c, apart, t, dtype, device, false), b(c, ahead, t, dtype, device, true);
    ASSERT_EQ(a.all.size(), 7 - c.constants.size()) << what;
    ASSERT_EQ(b.all.size(), a.all.size()) << what;
    for (std::size_t k = 0; k < a.all.size(); ++k) EXPECT_TRUE(identical(a.all[k], b.all[k])) << what << ", " << k;
    expect_same_state(ahead.state, apart.state, what);
  }
  EXPECT_EQ(item(ahead.state.iters.to(DType::f64)), 6) << what;
}

TEST(ChannelNormOfSum, HasTheBitsOfStatisticsTakenApart) {
  for (Device device : devices())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const SumCase& c : kSumCases) expect_same_bits(c, dtype, device);
}

TEST(ChannelNormOfSum, TakesItsStatisticsOnceAndOfThatSum) {
  const Layer layer(ChannelNormOptions::un(), 2, Device::cpu);
  ChannelStatistics statistics(Tensor::zeros({3, 2}, DType::f64), layer.gamma, nullptr, layer.state, layer.options);
  const Tensor x = randn({3, 2}, 1);
  statistics.take(x);
  EXPECT_EQ(layer.state.iters.item(), 1);
  Tape tape;
  const Var gamma = tape.constant(layer.gamma), beta = tape.constant(layer.beta), other = tape.constant(x.clone());
  EXPECT_EQ(message_of([&] {
              channel_norm(other, gamma, beta, nullptr, layer.state, layer.options, true, nullptr, &statistics);
            }),
            "channel_norm: the statistics given were taken of another tensor than x");
  EXPECT_THROW(statistics.take(x), std::logic_error);
  EXPECT_EQ(layer.state.iters.item(), 1);
}

#ifdef FOLDGRAD_EMULATE
// Forward the sum is written from what it adds, and its moments come with it; then the result. Backward the stream's
// gradient and dx become one while the branch's is written.
TEST(ChannelNormOfSum, OnCudaTakesTwoKernelsAndTwoReadsLess) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t rows = 70, columns = 520, matrix = rows * columns * std::int64_t(size_of(dtype));
    Layer layer(ChannelNormOptions::un(), columns, Device::cuda, DType::f32);
    layer.gamma = layer.gamma.to(dtype), layer.beta = layer.beta.to(dtype);
    Tape tape;
    const auto operand = [&](Shape shape, unsigned seed) {
      return tape.variable(randn(std::move(shape), seed).to(dtype).to(Device::cuda));
    };
    const Var x = operand({rows, columns}, 1), residual = operand({rows, columns}, 2), bias = operand({columns}, 3);
    ChannelStatistics statistics(x.value(), layer.gamma, nullptr, layer.state, layer.options);
    const emulation::LaunchCounts forward;
    const emulation::CountAccesses seen;
    const Var sum = bias_dropout_residual(x, bias, residual, 0.1, kDropped, {}, &statistics);
    EXPECT_EQ(forward.total(), 1) << forward.table();
    EXPECT_EQ(seen.result().bytes, 3 * matrix);
    const Var y = channel_norm(sum, tape.constant(layer.gamma), tape.constant(layer.beta), nullptr, layer.state,
                               layer.options, true, nullptr, &statistics);
    EXPECT_EQ(forward.total(), 2) << forward.table();
    EXPECT_EQ(seen.result().bytes, (3 + 2) * matrix);
    EXPECT_TRUE(whole_sectors(seen.result()));

    const Var both = add(y, sum);
    const Tensor dy = randn(both.shape(), 4).to(dtype).to(Device::cuda);
    const emulation::LaunchCounts backward;
    const emulation::CountAccesses seen_backward;
    tape.backward(both, dy);
    // Sums by channel; dx with the branch, and the totals of its bias, which wait for the end.
    EXPECT_EQ(backward.total(), 3) << backward.table();
    EXPECT_EQ(seen_backward.result().bytes, (2 + 5) * matrix);
    EXPECT_TRUE(whole_sectors(seen_backward.result()));
  }
}
#endif

}  // namespace
}  // namespace foldgrad::testing
