#include "ops/power_norm/power_norm.h"

#include <map>

#include "engine/graph/channel_map.h"
#include "tests/ops/channel_norm_fixture.h"
#include "tests/ops/channel_norm_histories.h"

namespace foldgrad::testing {
namespace {

using Options = PowerNormOptions;
constexpr double kRounding = 1e-14;

PowerNormState state_at(std::int64_t iterations, std::int64_t C, DType dtype, Device device) {
  PowerNormState state = PowerNormState::create(C, dtype == DType::f64 ? DType::f64 : DType::f32, device);
  state.iters.copy_from(Tensor::of<std::int64_t>({}, {iterations}));
  return state;
}
PowerNormState copy_of(const PowerNormState& s) {
  return {s.phi.clone(), s.nu_ema.clone(), s.iters.clone(), s.skips.clone()};
}

// Makes a case in which every evaluation begins with the same state. In training, dx is an estimate, so `large`
// excludes the case from the comparison with central differences.
OpCase power_case(const std::string& label, bool training, bool padded, std::int64_t rows, std::int64_t columns) {
  return {.label = label,
          .operands = {randn({rows, columns}, 1, 1, 0.3), randn({columns}, 2), randn({columns}, 3)},
          .f =
              [=](const std::vector<Var>& v) {
                const PowerNormState state = state_at(20000, columns, v[0].dtype(), v[0].device());
                set(state.phi, 0.7);
                set(state.nu_ema, 0.5);
                return power_norm(v[0], v[1], v[2], state, {},
                                  {.training = training, .counted = padded ? rows - rows / 3 : rows});
              },
          .large = training};
}

void run(Tape& t, const Options& options, std::int64_t C = 3, std::int64_t C_of_state = 3,
         std::optional<std::int64_t> counted = {}) {
  const Var x = zeros(t, 2, 3), g = t.constant(Tensor::zeros({C}, DType::f32));
  power_norm(x, g, g, PowerNormState::create(C_of_state, DType::f32), options, {.training = true, .counted = counted});
}

const RegisterOp kPowerNorm({
    .name = "power_norm",
    .cases = {power_case("evaluated", false, false, 4, 3), power_case("one column, evaluated", false, true, 5, 1),
              power_case("70 rows", true, false, 70, 32), power_case("130 rows, padded", true, true, 130, 33),
              power_case("more rows than the blocks of a grid take at once", true, false, 65700, 2)},
    .errors = {{"power_norm: gamma must be f32 [3] on cpu (x is f32 [2, 3] on cpu), got f32 [2] on cpu",
                [](Tape& t) { run(t, {}, 2); }},
               {"power_norm: counted must be in [0, 2], since x has 2 rows, got 3",
                [](Tape& t) { run(t, {}, 3, 3, 3); }},
               {"power_norm: state.nu_ema must be f32 [3] on cpu (x is f32 [2, 3] on cpu), got f32 [4] on cpu",
                [](Tape& t) { run(t, {}, 3, 4); }},
               {"power_norm: eps must not be negative, got -1", [](Tape& t) { run(t, {.eps = -1}); }},
               {"power_norm: alpha must be in [0, 1], got 1.5", [](Tape& t) { run(t, {.alpha_backward = 1.5}); }}},
    .f32_roundoffs = 2000,  // as in channel_norm_test.cpp
    .bf16_roundoffs = 32,
});

struct Result {
  Tensor y, dx, dgamma, dbeta;
};
Result step(const Options& o, const PowerNormState& state, const Tensor& x, const Tensor& dy, const Tensor& gamma,
            const Tensor& beta, std::optional<std::int64_t> counted = {}) {
  const OpResult all = results_of(
      [&](auto& v) { return power_norm(v[0], v[1], v[2], state, o, {.training = true, .counted = counted}); },
      {x, gamma, beta}, dy, DType::f64, state.phi.device());
  return {all.y, all.grads[0], all.grads[1], all.grads[2]};
}
// Runs one step of one channel.
Result step(const Options& o, const PowerNormState& state, const std::vector<double>& x, const std::vector<double>& dy,
            double gamma = 1) {
  const std::int64_t P = std::int64_t(x.size());
  return step(o, state, Tensor::of({P, 1}, x), Tensor::of({P, 1}, dy), Tensor::of<double>({1}, {gamma}),
              Tensor::zeros({1}, DType::f64));
}

// x = 2, so q = 4. Iteration t = 2 is in warm-up, so z = 2 / sqrt(q) = 1. phi becomes 3 * 1/2 + 4/2 = 3.5, and then
// 0.9 * 3.5 + 0.1 * 4. With nu_ema = 2, h' = 3 - 0.1 * 2 * 1. Without warm-up, the next step divides by sqrt(phi).
TEST(PowerNorm, PN_1_PN_2_PN_3_WorkedByHand) {
  for (Device device : devices()) {
    Options o{.eps = 0};
    const PowerNormState state = state_at(1, 1, DType::f64, device);
    set(state.phi, 3);
    set(state.nu_ema, 2);
    const Result r = step(o, state, {2}, {3});
    EXPECT_EQ(item(r.y), 1);
    EXPECT_EQ(item(r.dgamma), 3);
    EXPECT_EQ(item(r.dbeta), 3);
    EXPECT_NEAR(item(r.dx), (3 - 0.2) / 2, kRounding);
    EXPECT_NEAR(item(state.phi), 0.9 * 3.5 + 0.4, kRounding);
    EXPECT_NEAR(item(state.nu_ema), 2 + 3 - 0.2, kRounding);
    o.warmup = 0;
    EXPECT_NEAR(item(step(o, state, {2}, {0}).y), 2 / std::sqrt(0.9 * 3.5 + 0.4), kRounding);
  }
}

// dgamma and dbeta must equal central differences. dx is an estimate, so it must differ from them.
TEST(PowerNorm, PN_3_EstimateOfDxLeavesDgammaAndDbetaExact) {
  for (std::int64_t warmup : {0, 10000}) {
    PowerNormState state = state_at(9, 3, DType::f64, Device::cpu);
    state.phi.copy_from(randn({3}, 5, 0.2, 1.5));
    state.nu_ema.copy_from(randn({3}, 6, 0.2, 0.4));
    const OpCase step{
        .label = "step", .operands = {randn({12, 3}, 1, 1.3, 0.4), randn({3}, 3), randn({3}, 4)}, .f = [&](auto& v) {
          return power_norm(v[0], v[1], v[2], copy_of(state), {.warmup = warmup}, {.training = true});
        }};
    const std::vector<Tensor> got = run_case(step, DType::f64, Device::cpu).grads;
    EXPECT_TRUE(close(got[1], central_differences(step, 1), 1e-8));
    EXPECT_TRUE(close(got[2], central_differences(step, 2), 1e-8));
    EXPECT_FALSE(close(got[0], central_differences(step, 0), 0.05)) << warmup;
  }
}

TEST(PowerNorm, CN_4_InferenceIsOneAffineMap) {
  for (Device device : devices()) {
    const PowerNormState state = state_at(0, 3, DType::f64, device);
    const Tensor x = randn({5, 3}, 1), gamma = randn({3}, 2), beta = randn({3}, 3);
    for (unsigned i = 0; i < 3; ++i) step({}, state, randn({9, 3}, 7 + i), randn({9, 3}, 20 + i), gamma, beta);
    const PowerNormState before = copy_of(state);
    Tape tape;
    const Var xv = tape.variable(x.to(device));
    const Var y =
        power_norm(xv, tape.constant(gamma.to(device)), tape.constant(beta.to(device)), state, {}, {.training = false});
    tape.backward(y, x.to(device));
    const AffineMap map = power_norm_affine(state, gamma, beta, {});
    for (std::int64_t i = 0; i < 15; ++i)
      EXPECT_NEAR(item(y.value(), i), map.A[std::size_t(i % 3)] * item(x, i) + map.B[std::size_t(i % 3)], 1e-13);
    for (const auto& [name, buffer] : before.named()) EXPECT_TRUE(identical(state.named().at(name), buffer)) << name;
  }
}

// A second implementation of power_norm, like channel_norm_model.h. It was written without looking at ops/power_norm.
class PowerNormModel {
 public:
  PowerNormModel(const PowerNormOptions& options, int channels) : phi(channels, 1), nu_ema(channels, 0), o(options) {}

  Column phi, nu_ema;
  long iters = 0, skips = 0;

  // Runs one iteration. x and dy are [C][P]; `real` is [P] and 0 for padding.
  ModelStep step(const Columns& x, const Columns& dy, const std::vector<int>& real, const Column& gamma,
                 const Column& beta) {
    ++iters;  // the first iteration is 1
    ModelStep out{Columns(x.size()), Columns(x.size()), Column(x.size(), 0), Column(x.size(), 0), {}, {}, false};
    Real n = 0;
    for (int m : real) n += m;
    if (n == 0) ++skips;
    for (std::size_t c = 0; c < x.size(); ++c) {
      Real q = 0;
      for (std::size_t i = 0; i < real.size(); ++i)
        if (real[i]) q += x[c][i] * x[c][i] / n;
      if (n == 0) q = phi[c];
      const Real root = std::sqrt((iters <= o.warmup ? q : phi[c]) + Real(o.eps));
      if (n > 0) forward(c, q);
      backward(c, x[c], dy[c], gamma[c], beta[c], root, std::sqrt(q + Real(o.eps)), n > 0, out);
    }
    return out;
  }

 private:
  void forward(std::size_t c, Real q) {  // [PN-2]
    const Real alpha = o.alpha_forward, t = Real(iters);
    if (iters < o.warmup) phi[c] = phi[c] * (t - 1) / t + q / t;
    phi[c] = alpha * phi[c] + (1 - alpha) * q;
  }
  // Computes [PN-1] and [PN-3]: divides x by `root`, and the corrected gradient h' by `root_q`.
  void backward(std::size_t c, const Column& x, const Column& dy, Real gamma, Real beta, Real root, Real root_q,
                bool writes, ModelStep& out) {
    Real sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real z = x[i] / root, h = dy[i] * gamma, corrected = h - (1 - Real(o.alpha_backward)) * nu_ema[c] * z;
      sum += corrected * z;
      out.y[c].push_back(gamma * z + beta);
      out.dx[c].push_back(corrected / root_q);
      out.dgamma[c] += dy[i] * z;
      out.dbeta[c] += dy[i];
    }
    if (writes) nu_ema[c] += sum / Real(x.size());
  }

  const PowerNormOptions o;
};

// For each kind of step, how often histories reached it.
using Reached = std::map<std::string, int>;

struct PowerNormKind {
  using Options = PowerNormOptions;

  static Options draw(Draws& random) {
    return {.warmup = random.below(12),
            .alpha_forward = random.one_of({0., 0.5, 0.9, 1.}),
            .alpha_backward = random.one_of({0., 0.5, 0.9, 1.}),
            .eps = random.one_of({1e-5, 1e-3, 1.})};
  }
  static long late_start(Draws&) { return 0; }
  static bool allows_non_finite(const Options&) { return false; }
  static bool allows(const Options&) { return true; }

  static std::vector<Edit<Options>> edits(const Options& options) {
    std::vector<Edit<Options>> all;
    for (std::int64_t less : {std::int64_t(0), options.warmup / 2, options.warmup - 1})
      all.push_back([=](Options& o) { return std::exchange(o.warmup, less) > less && less >= 0; });
    for (auto member : {&Options::alpha_forward, &Options::alpha_backward, &Options::eps})
      all.push_back([=](Options& o) { return std::exchange(o.*member, Options().*member) != Options().*member; });
    return all;
  }
  static std::string text(const Options& o) {
    return fmt::format("PowerNorm, warmup {}, alpha_forward {}, alpha_backward {}, eps {}", o.warmup, o.alpha_forward,
                       o.alpha_backward, o.eps);
  }
};
using PowerNormHistory = History<PowerNormKind>;

// Runs history `h` on the model and on power_norm, and throws if any results differ. Counts the steps of each kind in
// `reached`.
void follow(const PowerNormHistory& h, Device device, Reached& reached) {
  const std::int64_t C = std::int64_t(h.channels());
  PowerNormModel model(h.options, int(C));
  const PowerNormState state = state_at(0, C, DType::f64, device);
  for (std::size_t s = 0; s < h.steps.size(); ++s) {
    const auto& [x, dy, counted] = h.steps[s];
    const ModelStep want =
        model.step(columns(x), columns(dy), real_rows(h.rows(), counted), column(h.gamma), column(h.beta));
    const Result got =
        step(h.options, state, matrix(x), matrix(dy), vector(h.gamma), vector(h.beta), std::int64_t(counted));
    const std::string at = fmt::format("step {}, ", s + 1);
    compare(at + "y", got.y, rows_of(want.y));
    compare(at + "dx", got.dx, rows_of(want.dx));
    compare(at + "dgamma", got.dgamma, want.dgamma);
    compare(at + "dbeta", got.dbeta, want.dbeta);
    compare(at + "phi", state.phi, model.phi);
    compare(at + "nu_ema", state.nu_ema, model.nu_ema);
    if (state.skips.item() != model.skips) throw std::runtime_error(at + "skips");
    const std::int64_t t = std::int64_t(s) + 1;
    reached[t < h.options.warmup    ? "before the end of warm-up"
            : t == h.options.warmup ? "in the last iteration of warm-up"
                                    : "after warm-up"] += 1;
    reached["some padding"] += counted > 0 && counted < h.rows();
    reached["only padding"] += counted == 0;
    reached["more rows than a block"] += h.rows() > 64;
  }
}

TEST(PowerNormModel, PN_1_PN_2_PN_3_Histories) {
  check_property(1000, [] {
    Reached reached;
    follow(*any_history<PowerNormKind>(), Device::cpu, reached);
  });
}
TEST(PowerNormModel, HistoriesReachWhatTheyPromise) {
  Reached reached;
  for (std::uint64_t seed = 1; seed <= 300; ++seed)
    follow(any_history<PowerNormKind>()(rc::Random(seed)).value(), Device::cpu, reached);
  for (const char* kind : {"before the end of warm-up", "in the last iteration of warm-up", "after warm-up",
                           "some padding", "only padding", "more rows than a block"})
    EXPECT_GE(reached[kind], 20) << kind;
}
TEST(PowerNormModel, HistoriesOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  check_property(20, [] {
    Reached reached;
    follow(*any_history<PowerNormKind>(), Device::cuda, reached);
  });
}

const RegisterOp kGroupRms({
    .name = "group_rms",
    .cases = {{.label = "2 groups", .operands = {randn({3, 6}, 1)}, .f = [](auto& v) { return group_rms(v[0], 2); }},
              {.label = "no channels", .operands = {randn({3, 0}, 1)}, .f = [](auto& v) { return group_rms(v[0], 2); }},
              {.label = "a vector", .operands = {randn({6}, 1)}, .f = [](auto& v) { return group_rms(v[0], 2); }},
              {.label = "one channel per group",
               .operands = {randn({2, 3}, 2)},
               .f = [](auto& v) { return group_rms(v[0], 3, 0.1); }}},
    .errors = {{"group_rms: groups must divide the number of channels, 6, got 4",
                [](Tape& t) { group_rms(zeros(t, 2, 6), 4); }}},
});

// The first group is (3, 4): the mean square is (9 + 16) / 2 = 12.5, and eps = 3.5 makes the root 4.
TEST(GroupRms, PN_4_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 4}, {3, 4, 0, 0})}, .y = {0.75, 1, 0, 0}},
                 [](auto& v) { return group_rms(v[0], 2, 3.5); });
}

}  // namespace
}  // namespace foldgrad::testing
