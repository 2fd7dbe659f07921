// Tests hand-built graphs that fold, one for each way in which a map can reach a weight. Also tests the drawing of
// graphs.
#include "models/fold/graph_dot.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

using Into = std::vector<std::string>;
using Outcome = SiteReport::Outcome;

void expect_folded(const Into& into, const FoldOptions& options, const BuildGraph& build) {
  const FoldedGraph folded = fold_and_compare(build, options);
  ASSERT_FALSE(folded.reports.empty());
  const SiteReport& first = folded.reports[0];
  EXPECT_EQ(first.outcome, Outcome::folded)
      << (first.kept.empty() ? "" : first.kept[0].edge + ": " + first.kept[0].reason);
  EXPECT_EQ(first.into, into);
  EXPECT_FALSE(folded.sites.count(first.site));
}

void expect_folded(const Into& into, const BuildGraph& build) { expect_folded(into, {}, build); }

// W = (1 2; 3 4), A = (10, 100), B = (1, -1): W' = (10 200; 30 400), b' = (0.5, 0) + (1 - 2, 3 - 4).
TEST(FoldGraph, FOLD_1_WorkedByHand) {
  Tape tape;
  Parameter W{"fc.weight", Tensor::of<double>({2, 2}, {1, 2, 3, 4})}, b{"fc.bias", Tensor::of<double>({2}, {0.5, 0})};
  const auto norm = make_normalizer("affine", {}, "norm", 2, DType::f64);
  const Var y = linear(norm->apply(tape.variable(randn({3, 2}, 1)), {}), tape.parameter(W), tape.parameter(b));
  const FoldedGraph folded = fold_by_hand(y, *norm, {"norm", true, {{10, 100}, {1, -1}}, "affine"}, {&W, &b});
  EXPECT_TRUE(identical(folded.parameters.at("fc.weight"), Tensor::of<double>({2, 2}, {10, 200, 30, 400})));
  EXPECT_TRUE(identical(folded.parameters.at("fc.bias"), Tensor::of<double>({2}, {-0.5, -1})));
  EXPECT_TRUE(identical(W.value, Tensor::of<double>({2, 2}, {1, 2, 3, 4})));
}

// W = (1 2; 3 4), A = (1, 3): the rows of W A are (1, 6) and (3, 12), from which the means 3.5 and 7.5 are subtracted.
TEST(FoldGraph, FOLD_2_WorkedByHand) {
  Tape tape;
  Parameter W{"fc.weight", Tensor::of<double>({2, 2}, {1, 2, 3, 4})};
  const auto norm = make_normalizer("centernorm", {}, "norm", 2, DType::f64);
  const Var y = linear(norm->apply(tape.variable(randn({3, 2}, 1)), {}), tape.parameter(W));
  const FoldedGraph folded =
      fold_by_hand(y, *norm, {"norm", true, {{1, 3}, {0, 1}, /*centered=*/true}, "center_norm"}, {&W});
  EXPECT_TRUE(identical(folded.parameters.at("fc.weight"), Tensor::of<double>({2, 2}, {-2.5, 2.5, -4.5, 4.5})));
  EXPECT_TRUE(identical(folded.parameters.at("fc.bias"), Tensor::of<double>({2}, {2, 4})));
  EXPECT_EQ(folded.created, std::set<std::string>{"fc.bias"});
}

TEST(FoldGraph, ACreatedBiasIsNamedAfterItsWeight) {
  for (const auto& [weight, bias] : {std::pair{"fc.weight", "fc.bias"}, {"fc.matrices", "fc.matrices.bias"}}) {
    Tape tape;
    Parameter W{weight, randn({2, 3}, 1)};
    const auto norm = make_normalizer("affine", {}, "norm", 3, DType::f64);
    const Var y = linear(norm->apply(tape.variable(randn({4, 3}, 1)), {}), tape.parameter(W));
    const FoldedGraph folded = fold_by_hand(y, *norm, {"norm", true, {{2, 3, 4}, {1, 0, 0}}, "affine"}, {&W});
    EXPECT_EQ(folded.created, std::set<std::string>{bias});
  }
}

TEST(FoldGraph, FOLD_1_FOLD_2_IntoEveryLinearLayerThatReadsIt) {
  for (const char* kind : {"affine", "centernorm", "bn", "repbn"})
    expect_folded({"q.weight", "k.weight"}, [&](GraphBuilder& g) {
      const Var y = g.norm(g.input({2, 3, 4}), "norm", kind);
      return std::vector{g.linear(y, "q", 5), g.linear(y, "k", 5, /*bias=*/false)};
    });
}

TEST(FoldGraph, IntoALayerWhoseBiasIsAddedLater) {
  expect_folded({"fc.weight"}, [](GraphBuilder& g) {
    const Var y = g.linear(g.norm(g.input({2, 4})), "fc", 5, /*bias=*/false);
    return std::vector{bias_activation(y, g.parameter("b", {5}), Activation::gelu)};
  });
}

TEST(FoldGraph, IntoALayerThatReadsItTwice) {
  expect_folded({"fc.weight"}, [](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 4}));
    return std::vector{g.linear(y, "fc", 5), g.linear(y, "fc", 5)};
  });
}

TEST(FoldGraph, ThroughSelectionAndMeanIntoAHead) {
  expect_folded({"head.weight", "head2.weight", "head3.weight", "head4.weight"}, [](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 3, 4}));
    return std::vector{g.linear(reshape(slice(y, 1, 0, 1), {2, 4}), "head", 5), g.linear(mean_pool(y), "head2", 5),
                       g.linear(gather(reshape(y, {6, 4}), g.tape.constant(random_ids({2, 2}, 6, 1))), "head3", 2),
                       g.linear(scale(y, 3), "head4", 2)};
  });
}

TEST(FoldGraph, ThroughConcatOfChannels) {
  const FoldedGraph folded = fold_and_compare([](GraphBuilder& g) {
    const Var x = g.input({2, 3, 4}), a = g.norm(x, "a"), b = g.norm(x, "b", "centernorm");
    return std::vector{g.linear(concat({a, x, b, a}, 2), "fc", 5)};
  });
  for (const SiteReport& r : folded.reports) EXPECT_EQ(r.outcome, Outcome::folded) << r.site;
}

TEST(FoldGraph, IntoPatchesWithoutPadding) {
  for (const char* kind : {"affine", "centernorm"})
    expect_folded({"conv.weight"}, [&](GraphBuilder& g) {
      const Var places = unfold(g.norm(g.input({2, 5, 5, 3}), "norm", kind), 2, 2, {.stride = 2});
      const Var W = reshape(g.parameter("conv.weight", {4, 3, 2, 2}), {4, 12});
      if (g.has("conv.bias")) return std::vector{linear(places, W, g.parameter("conv.bias", {4}))};
      return std::vector{linear(places, W)};
    });
}

TEST(FoldGraph, IntoAFlattenedHead) {
  expect_folded({"head.weight"}, [](GraphBuilder& g) {
    const Var y = permute(g.norm(g.input({2, 3, 4})), {0, 2, 1});
    return std::vector{g.linear(reshape(y, {2, 12}), "head", 5)};
  });
}

// A map without B leaves zeros unchanged.
TEST(FoldGraph, ThroughPaddingWithZerosWhereBIsZero) {
  expect_folded({"fc.weight"}, [](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 3, 4}), "norm", "affine", /*zero_bias=*/true);
    const Var padded = mul(y, g.tape.constant(randn({2, 3, 4}, 3)));
    return std::vector{g.linear(padded, "fc", 5)};
  });
}

TEST(FoldGraph, FOLD_4_IntoTheNormalizerBehind) {
  const FoldedGraph folded = fold_and_compare([](GraphBuilder& g) {
    return std::vector{relu(g.norm(g.norm(g.input({2, 4}), "first"), "second", "bn"))};
  });
  EXPECT_EQ(folded.reports[0].into, Into{"second"});
  EXPECT_EQ(folded.reports[1].outcome, Outcome::kept);
}

// Builds a post-norm sublayer. Its residual stream is the normalized x.
std::vector<Var> post_norm_of(GraphBuilder& g, const Var& x) {
  const Var y = g.norm(x);
  const Var h = g.linear(relu(g.linear(y, "fc1", 6)), "fc2", 4, /*bias=*/false);
  const Var b = g.parameter("fc2.b", {4});
  const Var sum = g.sum(y, [&](const Var& stream) { return bias_dropout_residual(h, b, stream, 0, {}); });
  return {g.linear(g.norm(sum, "next"), "head", 5)};
}

std::vector<Var> post_norm(GraphBuilder& g) { return post_norm_of(g, g.input({2, 3, 4})); }

TEST(FoldGraph, FOLD_3_WhereTheStreamWouldKeepTheMap) {
  expect_folded({"stem.weight"}, [](GraphBuilder& g) {
    return post_norm_of(g, g.linear(g.input({2, 3, 4}), "stem", 4));
  });
}

TEST(FoldGraph, PostNormKeepsTheMapOnTheStream) {
  const FoldedGraph folded = fold_and_compare(post_norm);
  EXPECT_EQ(folded.reports[0].outcome, Outcome::partly);
  EXPECT_EQ(folded.reports[0].into, Into{"fc1.weight"});
  EXPECT_EQ(folded.reports[0].kept[0].edge, "norm -> sum: bias_dropout_residual");
  EXPECT_EQ(folded.residuals.size(), 1u);
}

TEST(FoldGraph, FOLD_5_PostNormWithARescaledStream) {
  expect_folded({"fc1.weight", "fc2.weight", "next"}, {.rescale_stream = true}, post_norm);
}

TEST(FoldGraph, FOLD_5_OfAPlainSum) {
  expect_folded({"fc1.weight", "head.weight", "head2.weight", "fc2.weight"}, {.rescale_stream = true},
                [](GraphBuilder& g) {
                  const Var y = g.norm(g.input({2, 3, 4}));
                  const Var h = g.linear(relu(g.linear(y, "fc1", 6)), "fc2", 4);
                  return std::vector{g.linear(add(h, y), "head", 5), g.linear(y, "head2", 3)};
                });
}

std::vector<Var> tied(GraphBuilder& g) {
  const Var table = g.parameter("table.weight", {7, 4});
  const Var x = embedding(table, g.tape.constant(random_ids({2, 3}, 7, 1)));
  return {g.linear(g.norm(relu(x)), "table", 7, /*bias=*/false, "output")};
}

TEST(FoldGraph, TiedTablesAreCopiedOrKeepAGain) {
  FoldedGraph folded = fold_and_compare(tied, {FoldOptions::Tied::untie});
  EXPECT_EQ(folded.reports[0].into, Into{"output.weight"});
  EXPECT_EQ(folded.created, (std::set<std::string>{"output.weight", "output.bias"}));
  EXPECT_TRUE(folded.sites.empty());
  folded = fold_and_compare(tied, {FoldOptions::Tied::keep});
  EXPECT_EQ(folded.reports[0].outcome, Outcome::partly);
  EXPECT_EQ(folded.created, std::set<std::string>{"output.bias"});
  EXPECT_FALSE(folded.sites.at("norm").adds());
}

TEST(FoldGraph, FOLD_3_IntoTheProjectionOfQueriesPerHead) {
  for (const char* kind : {"affine", "centernorm"})
    for (bool bias : {true, false})
      expect_folded({"q.weight"}, [&](GraphBuilder& g) {
        const Var q = g.linear(g.input({2, 3, 4}), "q", 6, bias);
        return std::vector{relu(g.norm(permute(reshape(q, {2, 3, 2, 3}), {0, 2, 1, 3}), "norm", kind))};
      });
}

TEST(FoldGraph, FOLD_3_IntoEmbeddings) {
  expect_folded({"table"}, [](GraphBuilder& g) {
    const Var ids = g.tape.constant(random_ids({2, 3}, 7, 1));
    return std::vector{relu(g.norm(embedding(g.parameter("table", {7, 4}), ids, 2)))};
  });
  expect_folded({"table", "positions"}, [](GraphBuilder& g) {
    const Var ids = g.tape.constant(random_ids({2, 3}, 7, 1));
    const Var x = embedding(g.parameter("table", {7, 4}), ids, 2);
    return std::vector{relu(g.norm(learned_positions(x, g.parameter("positions", {3, 4}))))};
  });
}

// W B becomes a new bias of the layer. If W B were added to the later bias instead, the first result would lack it.
TEST(FoldGraph, FOLD_1_OfALayerThatIsReturnedBeforeItsBias) {
  expect_folded({"fc.weight"}, [](GraphBuilder& g) {
    const Var y = g.linear(g.norm(x3(g)), "fc", 5, /*bias=*/false);
    return Vars{y, add_bias(y, g.parameter("b", {5}))};
  });
}

TEST(FoldGraph, Messages) {
  Tape tape;
  Parameter W{"fc.weight", randn({2, 3}, 1)};
  const auto norm = make_normalizer("ln", {}, "norm", 3, DType::f64);
  const Var y = linear(norm->apply(tape.variable(randn({4, 3}, 1)), {}), tape.parameter(W));
  const Graph graph = graph_of(tape, {y}, {"norm"});
  NamedTensors values;
  for (Parameter* p : norm->parameters()) values[p->name] = p->value;
  EXPECT_EQ(message_of([&] { fold(graph, {}, values); }), "fold: there is no parameter fc.weight");
  values[W.name] = W.value;
  EXPECT_EQ(message_of([&] {
              fold(graph, {{"norm", true, {{1, 2}, {1, 2}}}}, values);
            }),
            "fold: norm must have 3 channels, got 2 in A and 2 in B");
}

// y = relu(x) + tanh(relu(x)). No operation computes x, so no arrow leads from x to relu.
TEST(GraphDot, ArrowsLeadFromWhatComputesAValueToWhatReadsIt) {
  Tape tape;
  const Var x = tape.variable(randn({2, 3}, 1));
  const Var a = relu(x);
  const Var b = tanh(a);
  const Var y = add(a, b);
  const Graph graph = graph_of(tape, {y});
  const std::string text = graph_dot({{"one", graph, {}}, {"two", graph, {}}});
  std::vector<std::string> arrows;
  for (std::size_t at = 0; (at = text.find(" -> ", at)) != std::string::npos; ++at) {
    const std::size_t begin = text.rfind("    ", at) + 4;
    arrows.push_back(text.substr(begin, text.find('\n', at) - begin));
  }
  EXPECT_EQ(arrows, (std::vector<std::string>{"g0n0 -> g0n1", "g0n0 -> g0n2", "g0n1 -> g0n2", "g1n0 -> g1n1",
                                              "g1n0 -> g1n2", "g1n1 -> g1n2"}));
}

}  // namespace
}  // namespace foldgrad::testing
