// Compares the operations of book/tiny.cpp with the engine's.
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "tests/book/both.h"

namespace foldgrad::testing {
namespace {

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
  // The rows have an integer mean and a variance of 5. With an eps of 11, rstd is 1/4, and nothing is rounded.
  tiny::Tensor x(40, 64);
  for (int r = 0; r < x.rows; ++r)
    for (int c = 0; c < x.columns; ++c) x(r, c) = r % 7 + (c % 2 ? 1 : -1) * ((c + 2 * r) % 4 < 2 ? 1 : 3);
  expect_same_layer_norm(0, x, 11, "exact");
  tiny::Random random(5);
  expect_same_layer_norm(0, uniform(16, 2, random), 1e-5, "two channels");
  // The bound assumes that |xhat|, |h xhat| and rstd are below 4, as they are here.
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
  // Each logit is either the largest of its row or far below the largest, so exp() gives exactly 1 or 0. At other
  // arguments, glibc's vector version of exp(), which the engine's loops call, may be off by 4 units in the last place.
  tiny::Tensor exact = integers(2, 10, random);
  for (double& v : exact.values) v = v < 0 ? -2000 : 3;
  expect_same_cross_entropy(0, exact, 0);
  tiny::Tensor rows = integers(64, 10, random);
  for (double& v : rows.values) v = v < 0 ? -2000 : 3;
  expect_same_cross_entropy(order_bound(64, 2000) / 64, rows, 0);  // only the sum over the rows is rounded

  expect_same_cross_entropy(order_bound(64, 4) / 64, uniform(64, 10, random), order_bound(10, 1) / 64);
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
