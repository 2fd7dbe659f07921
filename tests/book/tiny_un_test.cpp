// Compares UN and folding in book/tiny.cpp with the engine's versions.
#include "models/fold/weights.h"
#include "ops/channel_norm/channel_norm.h"
#include "tests/book/both.h"

namespace foldgrad::testing {
namespace {

// One UN layer in both implementations.
struct UnifiedNorms {
  tiny::UnifiedNorm un;
  ChannelNormOptions options = ChannelNormOptions::un();
  ChannelNormState state;

  explicit UnifiedNorms(tiny::UnifiedNorm made) : un(std::move(made)) {
    options.window_forward = options.window_backward = un.M;
    options.warmup = un.warmup;
    options.filtration = un.filtration;
    options.granularity = Granularity::pooled;
    state = ChannelNormState::create(options, un.C, DType::f64);
  }

  // Runs one iteration of both implementations and compares their results, gradients and states. tiny stores the
  // gradients of gamma and beta in `un`.
  void step(const tiny::Tensor& x, const tiny::Tensor& dy, double bound) {
    un.gamma->grad = un.beta->grad = tiny::Tensor(1, un.C);
    Results got = of_tiny({x}, dy, [&](tiny::Tape& tape, const auto& v) { return unified_norm(tape, v[0], un); });
    got.insert(got.end(), {un.gamma->grad.values, un.beta->grad.values});
    const Results want = of_engine({x, un.gamma->value, un.beta->value}, dy, [&](const auto& v) {
      return channel_norm(v[0], v[1], v[2], state, options, {.training = true});
    });
    const std::string iteration = "iteration " + std::to_string(un.iters);
    expect_within(bound, got, want, iteration);
    expect_same_state(bound, iteration);
  }

  void expect_same_state(double bound, const std::string& what) const {
    EXPECT_EQ(un.iters, state.iters.item());
    EXPECT_EQ(un.skips, state.skips.item()) << what;
    expect_within(bound, {un.run_var.values, un.psi_ema.values, un.win_sq.values, un.win_g.values},
                  {state.run_var.values<double>(), state.psi_ema.values<double>(), state.win_sq.values<double>(),
                   state.win_g.values<double>()},
                  what + ", state");
  }

  // Runs 40 iterations: first the warm-up, then iterations that use averages. In iteration 20, x is multiplied by
  // `outlier`.
  void run(int rows, double bound, double outlier = 50) {
    tiny::Random random(6);
    un.gamma->value = uniform(1, un.C, random);
    un.beta->value = uniform(1, un.C, random);
    for (int t = 1; t <= 40 && !::testing::Test::HasFatalFailure(); ++t) {
      tiny::Tensor x = uniform(rows, un.C, random);
      for (int i = 0; i < x.size(); ++i) x[i] *= (1 + i % un.C) * (t == 20 ? outlier : 1);
      step(x, uniform(rows, un.C, random), bound);
    }
  }
};

TEST(TinyUn, CN_1_UN_1_UN_16_UN_17_UN_19_CN_2_CN_3_AreTheEngines) {
  UnifiedNorms filtered({.C = 5, .warmup = 10});
  filtered.run(16, 0);
  EXPECT_EQ(filtered.un.skips, 1);  // the skip of iteration 20, which has the outlier

  UnifiedNorms early({.C = 5, .M = 3, .warmup = 0});
  early.run(9, 0);
  UnifiedNorms unfiltered({.C = 5, .warmup = 10, .filtration = false});
  unfiltered.run(16, 0);
  EXPECT_EQ(unfiltered.un.skips, 0);
  UnifiedNorms single({.C = 5, .M = 1, .warmup = 10});
  single.run(16, 0);

  UnifiedNorms many({.C = 5, .warmup = 10});
  many.run(100, order_bound(100, 250 * 250));  // |x| is up to 5 * 50 in iteration 20
}

TEST(TinyUn, UN_19_DecidesAsTheEngine) {
  int skipped = 0, kept = 0;
  for (double outlier = 1; outlier < 6; outlier *= 1.02) {
    UnifiedNorms both({.C = 5, .warmup = 10});
    both.run(16, 0, outlier);
    (both.un.skips ? skipped : kept) += 1;
  }
  EXPECT_GT(skipped, 20);
  EXPECT_GT(kept, 20);
}

TEST(TinyUn, UN_16_TakesZerosAsTheEngine) {
  UnifiedNorms both({.C = 5, .warmup = 10, .filtration = false});
  both.run(16, 0, 0);
}

TEST(TinyUn, CN_4_IsTheEngines) {
  UnifiedNorms both({.C = 5, .warmup = 10});
  both.run(16, 0);
  const tiny::AffineMap map = inference_form(both.un);
  const Tensor gamma = engine_tensor(both.un.gamma->value), beta = engine_tensor(both.un.beta->value);
  const AffineMap want = channel_affine(both.state, gamma, beta, both.options);
  EXPECT_EQ(map.A.values, want.A);
  EXPECT_EQ(map.B.values, want.B);

  tiny::Random random(7);
  const tiny::Tensor x = uniform(9, 5, random);
  Tape tape(/*recording=*/false);
  const Var y = channel_norm(tape.constant(engine_tensor(x)), tape.constant(gamma), tape.constant(beta), both.state,
                             both.options, {.training = false});
  EXPECT_EQ(map(x).values, y.value().values<double>());
}

TEST(TinyUn, FOLD_1_IsTheEngines) {
  tiny::Random random(8);
  const tiny::AffineMap map{uniform(1, 20, random), uniform(1, 20, random)};
  tiny::Tensor W = uniform(7, 20, random), b = uniform(1, 7, random);
  const Tensor engine_W = engine_tensor(W), engine_b = engine_tensor(b);
  tiny::fold(map, W, b);
  fold_columns(engine_W, engine_b, {{.place = {.axis = 1}, .map = {map.A.values, map.B.values}}});
  EXPECT_EQ(W.values, engine_W.values<double>());
  EXPECT_EQ(b.values, engine_b.values<double>());
}

}  // namespace
}  // namespace foldgrad::testing
