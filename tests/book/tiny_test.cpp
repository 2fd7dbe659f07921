// Holds every operation of book/tiny.cpp to the engine's.
//
// Both evaluate the same formulas in f64. The one difference is the order of long sums, which the engine shares out
// among lanes of vectors and blocks of rows. So results are the same bits on numbers that no sum rounds, and on shapes
// for which both have the same order: up to 16 rows, and rows of two channels. Elsewhere they differ by that rounding.
#define main tiny_main
#include "book/tiny.cpp"
#undef main

#include "models/fold/weights.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// The result of an operation and the gradients of its operands.
using Results = std::vector<std::vector<double>>;

tiny::Tensor uniform(int rows, int columns, tiny::Random& random) {
  tiny::Tensor t(rows, columns);
  for (double& v : t.values) v = tiny::uniform(random, -1, 1);
  return t;
}
tiny::Tensor integers(int rows, int columns, tiny::Random& random) {
  tiny::Tensor t(rows, columns);
  for (double& v : t.values) v = int(random() % 9) - 4;
  return t;
}

// The engine's vectors have one axis, and its scalars none.
Tensor engine_tensor(const tiny::Tensor& t) {
  if (t.size() == 1) return Tensor::of<double>({}, t.values);
  return t.rows == 1 ? Tensor::of<double>({t.columns}, t.values) : Tensor::of<double>({t.rows, t.columns}, t.values);
}

template <class Op>
Results of_tiny(const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op) {
  tiny::Tape tape;
  std::vector<tiny::Var> vars;
  for (const tiny::Tensor& t : operands) vars.push_back(tiny::variable(t));
  const tiny::Var y = op(tape, vars);
  tape.record([&] { y->grad = dy; });
  tape.backward(tiny::variable(tiny::Tensor(1, 1)));
  Results results{y->value.values};
  for (const tiny::Var& v : vars) results.push_back(v->grad.values);
  return results;
}
template <class Op>
Results of_engine(const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op) {
  Tape tape;
  std::vector<Var> vars;
  for (const tiny::Tensor& t : operands) vars.push_back(tape.variable(engine_tensor(t)));
  const Var y = op(vars);
  tape.backward(y, engine_tensor(dy));
  Results results{y.value().values<double>()};
  for (const Var& v : vars) results.push_back(tape.grad(v).values<double>());
  return results;
}

// |got - want| <= bound, everywhere. With a bound of 0 the bits are the same, but for the sign of a zero.
void expect_within(double bound, const Results& got, const Results& want, const std::string& what = "") {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), want[k].size()) << what << ", result " << k;
    for (std::size_t i = 0; i < got[k].size(); ++i)
      ASSERT_LE(std::fabs(got[k][i] - want[k][i]), bound) << what << ", result " << k << ", element " << i;
  }
}

// An operation of both: a function of tiny's tape and variables, and one of the engine's variables.
template <class OfTiny, class OfEngine>
struct Both : OfTiny, OfEngine {
  using OfTiny::operator(), OfEngine::operator();
};
using TinyVars = std::vector<tiny::Var>;
using EngineVars = std::vector<Var>;

template <class Op>
void expect_same(double bound, const std::vector<tiny::Tensor>& operands, const tiny::Tensor& dy, const Op& op,
                 const std::string& what = "") {
  expect_within(bound, of_tiny(operands, dy, op), of_engine(operands, dy, op), what);
}

// Two sums of n terms of at most `size` differ by no more than this: each of their n additions rounds by half a unit
// in the last place of a number of at most n size, and each term has been rounded a few times.
double order_bound(int n, double size) { return 2 * n * (n * size) * 0x1p-53 + 8 * n * size * 0x1p-53; }

TEST(Tiny, LIN_1_LIN_2_LIN_3_LIN_4_AreTheEngines) {
  const Both op{[](tiny::Tape& tape, const TinyVars& v) { return tiny::linear(tape, v[0], v[1], v[2]); },
                [](const EngineVars& v) { return linear(v[0], v[1], v[2]); }};
  tiny::Random random(1);
  const std::vector<tiny::Tensor> exact{integers(33, 20, random), integers(7, 20, random), integers(1, 7, random)};
  expect_same(0, exact, integers(33, 7, random), op, "exact");
  const std::vector<tiny::Tensor> rounded{uniform(33, 20, random), uniform(7, 20, random), uniform(1, 7, random)};
  expect_same(order_bound(33, 1), rounded, uniform(33, 7, random), op, "rounded");
}

TEST(Tiny, AR_1_IsTheEngines) {
  const Both op{[](tiny::Tape& tape, const TinyVars& v) { return tiny::add(tape, v[0], v[1]); },
                [](const EngineVars& v) { return add(v[0], v[1]); }};
  tiny::Random random(2);
  expect_same(0, {uniform(9, 5, random), uniform(9, 5, random)}, uniform(9, 5, random), op);
}

TEST(Tiny, ACT_1_IsTheEngines) {
  const Both op{[](tiny::Tape& tape, const TinyVars& v) { return tiny::relu(tape, v[0]); },
                [](const EngineVars& v) { return relu(v[0]); }};
  tiny::Random random(3);
  tiny::Tensor x = uniform(9, 5, random);
  x[0] = 0;
  expect_same(0, {x}, uniform(9, 5, random), op);
}

void expect_same_layer_norm(double bound, const tiny::Tensor& x, double eps, const std::string& what) {
  const Both op{[=](tiny::Tape& tape, const TinyVars& v) { return tiny::layer_norm(tape, v[0], v[1], v[2], eps); },
                [=](const EngineVars& v) { return layer_norm(v[0], v[1], v[2], eps); }};
  tiny::Random random(4);
  const auto operand = bound == 0 && x.columns > 2 ? integers : uniform;
  const std::vector<tiny::Tensor> operands{x, operand(1, x.columns, random), operand(1, x.columns, random)};
  expect_same(bound, operands, operand(x.rows, x.columns, random), op, what);
}

TEST(Tiny, LN_1_LN_2_LN_3_LN_4_LN_5_AreTheEngines) {
  // Rows of a mean in whole numbers and a variance of 5. With an eps of 11 rstd is 1/4, and nothing is rounded.
  tiny::Tensor x(40, 64);
  for (int r = 0; r < x.rows; ++r)
    for (int c = 0; c < x.columns; ++c) x(r, c) = r % 7 + (c % 2 ? 1 : -1) * ((c + 2 * r) % 4 < 2 ? 1 : 3);
  expect_same_layer_norm(0, x, 11, "exact");
  tiny::Random random(5);
  expect_same_layer_norm(0, uniform(16, 2, random), 1e-5, "two channels");
  // |xhat|, |h xhat| and rstd are below 4 here.
  expect_same_layer_norm(order_bound(64, 4), uniform(40, 64, random), 1e-5, "rounded");
}

void expect_same_cross_entropy(double bound, const tiny::Tensor& logits, double bound_of_gradient) {
  std::vector<int> targets;
  for (int r = 0; r < logits.rows; ++r) targets.push_back(r * r % logits.columns);
  const Both op{[&](tiny::Tape& tape, const TinyVars& v) { return tiny::cross_entropy(tape, v[0], targets); },
                [&](const EngineVars& v) {
                  const std::vector<std::int64_t> ids(targets.begin(), targets.end());
                  return cross_entropy(v[0], v[0].tape().constant(Tensor::of({std::int64_t(ids.size())}, ids)));
                }};
  const tiny::Tensor dloss(1, 1, 0.5);
  const Results got = of_tiny({logits}, dloss, op), want = of_engine({logits}, dloss, op);
  expect_within(bound, {got[0]}, {want[0]}, "loss");
  expect_within(bound_of_gradient, {got[1]}, {want[1]}, "gradient");
}

TEST(Tiny, CE_1_CE_2_CE_3_CE_4_AreTheEngines) {
  tiny::Random random(5);
  // Each logit is the greatest of its row or far below: exp() gives 1 and 0. Elsewhere the engine's loops call the
  // vector version of exp(), which glibc has within 4 units in the last place of the exact value.
  tiny::Tensor exact = integers(2, 10, random);
  for (double& v : exact.values) v = v < 0 ? -2000 : 3;
  expect_same_cross_entropy(0, exact, 0);
  tiny::Tensor rows = integers(64, 10, random);
  for (double& v : rows.values) v = v < 0 ? -2000 : 3;
  expect_same_cross_entropy(order_bound(64, 2000) / 64, rows, 0);  // the sum over the rows

  expect_same_cross_entropy(order_bound(64, 4) / 64, uniform(64, 10, random), order_bound(10, 1) / 64);
}

// Both implementations of one layer of UN.
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

  // One iteration of both. tiny's gradients of gamma and beta are those of `un`.
  void step(const tiny::Tensor& x, const tiny::Tensor& dy, double bound) {
    un.gamma->grad = un.beta->grad = tiny::Tensor(1, un.C);
    Results got = of_tiny({x}, dy, [&](tiny::Tape& tape, const auto& v) { return unified_norm(tape, v[0], un); });
    got.insert(got.end(), {un.gamma->grad.values, un.beta->grad.values});
    const Results want = of_engine({x, un.gamma->value, un.beta->value}, dy, [&](const auto& v) {
      return channel_norm(v[0], v[1], v[2], nullptr, state, options, /*training=*/true);
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

  // A history of warm-up, averages and, at iteration 20, an outlier.
  void run(int rows, double bound) {
    tiny::Random random(6);
    un.gamma->value = uniform(1, un.C, random);
    un.beta->value = uniform(1, un.C, random);
    for (int t = 1; t <= 40 && !::testing::Test::HasFatalFailure(); ++t) {
      tiny::Tensor x = uniform(rows, un.C, random);
      for (int i = 0; i < x.size(); ++i) x[i] *= (1 + i % un.C) * (t == 20 ? 50 : 1);
      step(x, uniform(rows, un.C, random), bound);
    }
  }
};

TEST(Tiny, CN_1_UN_1_UN_16_UN_17_UN_19_CN_2_CN_3_AreTheEngines) {
  UnifiedNorms filtered({.C = 5, .warmup = 10});
  filtered.run(16, 0);
  EXPECT_EQ(filtered.un.skips, 1);  // and 30 steps with averages

  UnifiedNorms early({.C = 5, .M = 3, .warmup = 0});
  early.run(9, 0);
  UnifiedNorms unfiltered({.C = 5, .warmup = 10, .filtration = false});
  unfiltered.run(16, 0);
  EXPECT_EQ(unfiltered.un.skips, 0);
  UnifiedNorms single({.C = 5, .M = 1, .warmup = 10});
  single.run(16, 0);

  UnifiedNorms many({.C = 5, .warmup = 10});
  many.run(100, order_bound(100, 250 * 250));  // the outlier's squares
}

TEST(Tiny, CN_4_IsTheEngines) {
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
  const Var y = channel_norm(tape.constant(engine_tensor(x)), tape.constant(gamma), tape.constant(beta), nullptr,
                             both.state, both.options, /*training=*/false);
  EXPECT_EQ(map(x).values, y.value().values<double>());
}

TEST(Tiny, FOLD_1_IsTheEngines) {
  tiny::Random random(8);
  const tiny::AffineMap map{uniform(1, 20, random), uniform(1, 20, random)};
  tiny::Tensor W = uniform(7, 20, random), b = uniform(1, 7, random);
  const Tensor engine_W = engine_tensor(W), engine_b = engine_tensor(b);
  tiny::fold(map, W, b);
  fold_columns(engine_W, engine_b, {{.place = {.axis = 1}, .map = {map.A.values, map.B.values}}});
  EXPECT_EQ(W.values, engine_W.values<double>());
  EXPECT_EQ(b.values, engine_b.values<double>());
}

TEST(Tiny, FoldedModelsAreNewOnes) {
  tiny::Random random(9);
  tiny::Model trained(tiny::Norm::unified, 4, 6, random);
  for (const tiny::Var& p : trained.parameters()) p->value = uniform(p->value.rows, p->value.columns, random);
  tiny::Model without = folded(trained);
  tiny::Tape tape;
  const tiny::Var points = tiny::variable(uniform(30, 2, random));
  const tiny::Tensor before = trained(tape, points, false)->value, after = without(tape, points, false)->value;
  expect_within(order_bound(6 * 4, 10), {before.values}, {after.values});
  for (const tiny::Layer* l : without.layers()) EXPECT_EQ(l->norm, tiny::Norm::none);
  EXPECT_EQ(trained.head.norm, tiny::Norm::unified);
  EXPECT_NE(trained.head.W, without.head.W);
}

TEST(Tiny, GradientsOfSeveralUsesAddUp) {
  tiny::Tape tape;
  const tiny::Var x = tiny::variable(tiny::Tensor(1, 1, 3));
  tape.backward(add(tape, x, add(tape, x, x)));
  EXPECT_EQ(x->grad[0], 3);
}

TEST(Tiny, OperandsThatDoNotFitAreRefused) {
  tiny::Tape tape;
  const tiny::Var x = tiny::variable(tiny::Tensor(4, 3)), v = tiny::variable(tiny::Tensor(1, 2));
  tiny::UnifiedNorm un{2};
  EXPECT_EQ(message_of([&] { linear(tape, x, v, v); }), "linear: W must be [1, 3], got [1, 2]");
  EXPECT_EQ(message_of([&] { add(tape, x, v); }), "add: b must be [4, 3], got [1, 2]");
  EXPECT_EQ(message_of([&] { layer_norm(tape, x, v, v); }), "layer_norm: gamma must be [1, 3], got [1, 2]");
  EXPECT_EQ(message_of([&] { unified_norm(tape, x, un); }), "unified_norm: x must be [4, 2], got [4, 3]");
  EXPECT_EQ(message_of([&] { cross_entropy(tape, x, {0}); }), "cross_entropy: there must be one target for each row");
  EXPECT_EQ(message_of([&] { tape.backward(x); }), "the loss must be [1, 1], got [4, 3]");
}

}  // namespace
}  // namespace foldgrad::testing
