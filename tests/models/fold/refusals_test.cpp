// What does not fold: each graph is left as it is, and the edge at fault is named.
#include <gtest/gtest.h>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

TEST(FoldRefusals, AResultOfTheForwardPass) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g));
              return Vars{g.linear(y, "fc", 5), y};
            }),
            "norm -> the result: what is returned must stay as it is");
}

TEST(FoldRefusals, AnActivation) {
  EXPECT_EQ(refusal([](GraphBuilder& g) { return Vars{g.linear(relu(g.norm(x3(g))), "fc", 5)}; }),
            "norm -> relu: relu is not linear");
}

TEST(FoldRefusals, OneOfTwoReadersIsNotLinear) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g));
              return Vars{g.linear(y, "fc", 5), softmax(y)};
            }),
            "norm -> softmax: softmax is not linear");
}

TEST(FoldRefusals, ZerosBetweenItAndALinearLayer) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var mask = g.tape.constant(Tensor::of<double>({1, 2, 2}, {1, 1, 0, 0}));
              return Vars{g.linear(mul(g.norm(g.input({1, 2, 2})), mask), "fc", 5)};
            }),
            "norm -> mul: an elementwise product changes B; its zeros would stay zeros, where the map gives B");
}

TEST(FoldRefusals, AProductThatDiffersFromChannelToChannelBehindCentring) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g), "norm", "centernorm", /*zero_bias=*/true);
              return Vars{g.linear(mul(y, g.tape.constant(randn({2, 3, 4}, 5))), "fc", 5)};
            }),
            "norm -> mul: an elementwise product does not commute with a map that mixes channels");
}

TEST(FoldRefusals, AConvolutionWithPadding) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var image = permute(g.norm(g.input({2, 4, 4, 3})), {0, 3, 1, 2});
              return Vars{conv2d(image, g.parameter("conv.weight", {4, 3, 3, 3}), {.padding = 1})};
            }),
            "norm -> unfold: unfold pads with zeros, where the map would give B");
}

TEST(FoldRefusals, AConvolutionAcrossTheChannels) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{conv2d(g.norm(g.input({2, 3, 4, 4})), g.parameter("conv.weight", {4, 3, 2, 2}))};
            }),
            "norm -> unfold: unfold cuts patches out of the channels");
}

TEST(FoldRefusals, AnotherWriterOfTheSameTokens) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = x3(g);
              return Vars{g.linear(concat({g.norm(x), x}, 1), "fc", 5)};
            }),
            "norm -> concat: concat joins along an axis other than the channels");
}

TEST(FoldRefusals, APieceOfTheChannels) {
  EXPECT_EQ(refusal([](GraphBuilder& g) { return Vars{g.linear(slice(g.norm(x3(g)), 2, 1, 3), "fc", 5)}; }),
            "norm -> slice: slice cuts the channels");
}

TEST(FoldRefusals, ChannelsTornIntoHeads) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(reshape(g.norm(x3(g)), {2, 3, 2, 2}), "fc", 5)};
            }),
            "norm -> reshape: reshape from [2, 3, 4] to [2, 3, 2, 2] tears the channels apart");
}

TEST(FoldRefusals, ALinearLayerAlongAnotherAxis) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(permute(g.norm(x3(g)), {0, 2, 1}), "mix", 5)};
            }),
            "norm -> mix: linear: it does not multiply the axis of the channels");
}

TEST(FoldRefusals, AverageOverChannels) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(mean_pool(permute(g.norm(x3(g)), {0, 2, 1})), "fc", 5)};
            }),
            "norm -> mean_pool: mean_pool averages over the channels");
}

TEST(FoldRefusals, AnAverageThatMayBeEmpty) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var mask = g.tape.constant(Tensor::of<std::uint8_t>({2, 3}, {1, 1, 0, 0, 0, 0}));
              return Vars{g.linear(mean_pool(g.norm(x3(g)), mask), "head", 5)};
            }),
            "norm -> mean_pool: mean_pool gives zeros for rows that are all masked, not B");
}

TEST(FoldRefusals, ATableThatIsAlsoTheOutputProjection) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = embedding(g.parameter("table.weight", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
              return Vars{g.linear(g.norm(relu(x)), "table", 7)};
            }),
            "norm -> table: linear: its weight table.weight is also read by embedding");
}

// Two parameters of one storage are one weight.
TEST(FoldRefusals, ATableThatIsTheOutputProjectionByItsStorage) {
  Tape tape;
  Parameter table{"table", randn({7, 4}, 1)}, output{"output.weight", table.value};
  const auto norm = make_normalizer("affine", {}, "norm", 4, DType::f64);
  const Var x = embedding(tape.parameter(table), tape.constant(random_ids({2, 3}, 7, 1)));
  const Var y = linear(norm->apply(relu(x), {}), tape.parameter(output));
  NamedTensors values{{table.name, table.value}, {output.name, output.value}};
  for (Parameter* p : norm->parameters()) values[p->name] = p->value;
  const FoldedGraph folded =
      fold(graph_of(tape, {y}, {"norm"}), {{"norm", true, {{2, 2, 2, 2}, {1, 1, 1, 1}}, "affine"}}, values);
  EXPECT_EQ(folded.reports[0].kept[0].reason, "its weight table is also read by embedding");
}

TEST(FoldRefusals, AWeightThatReadsTwoNormalizers) {
  const BuildGraph build = [](GraphBuilder& g) {
    const Var x = x3(g);
    return Vars{g.linear(g.norm(x, "a"), "fc", 5), g.linear(g.norm(x, "b"), "fc", 5)};
  };
  EXPECT_EQ(refusal(build, {}, "a"), "a -> fc: linear: its weight fc.weight is also read by fc: linear");
  EXPECT_EQ(refusal(build, {}, "b"), "b -> fc: linear: its weight fc.weight is also read by fc: linear");
}

TEST(FoldRefusals, AWeightThatReadsItInTwoWays) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g));
              return Vars{g.linear(y, "fc", 5), g.linear(scale(y, 2), "fc", 5)};
            }),
            "norm -> fc: linear: fc.weight is read in two ways");
}

TEST(FoldRefusals, AWeightWithAPenaltyOfItsOwn) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.linear(g.norm(x3(g)), "fc", 5);
              return Vars{y, sum(g.parameter("fc.weight", {5, 4}))};
            }),
            "norm -> fc: linear: its weight fc.weight is also read by sum");
}

TEST(FoldRefusals, ABiasThatIsAddedElsewhereToo) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = x3(g), y = g.linear(g.norm(x), "fc", 4);
              return Vars{y, add_bias(x, g.parameter("fc.bias", {4}))};
            }),
            "norm -> fc: linear: its bias fc.bias is also read by add_bias");
}

TEST(FoldRefusals, AWeightThatIsNoParameter) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{linear(g.norm(x3(g)), g.tape.constant(randn({5, 4}, 1)))};
            }),
            "norm -> linear: its weight is not a parameter");
}

TEST(FoldRefusals, AWeightItself) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{linear(g.input({3, 4}), g.norm(g.parameter("W", {5, 4})))};
            }),
            "norm -> linear: it is the weight there, or the bias");
}

TEST(FoldRefusals, ProductsOfActivations) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g));
              return Vars{matmul(y, permute(y, {0, 2, 1}))};
            }),
            "norm -> matmul: matmul is not linear");
}

TEST(FoldRefusals, Attention) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = g.input({3, 4});
              return Vars{attention(g.norm(x), x, x, {.heads = 2}, Segments({3}), Segments({3}))};
            }),
            "norm -> attention: attention is not linear");
}

TEST(FoldRefusals, DropoutInTraining) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(dropout(g.norm(x3(g)), 0.5, {1, 1, 1}), "fc", 5)};
            }),
            "norm -> dropout: dropout was recorded, so this is a forward pass in training");
}

TEST(FoldRefusals, StatisticsInTraining) {
  GraphBuilder g;
  g.training = true;
  const Var y = g.linear(g.norm(x3(g), "norm", "bn"), "fc", 5);
  const FoldedGraph folded = fold(graph_of(g.tape, {y}, {"norm"}), g.sites(), g.values());
  EXPECT_EQ(folded.reports[0].kept[0].reason, "it was recorded in training, where it has statistics");
}

TEST(FoldRefusals, ANormalizerThatIsAppliedTwice) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.linear(g.norm(x3(g)), "fc", 4);
              return Vars{g.linear(g.norm(y), "fc2", 5)};
            }),
            "norm: it is applied 2 times");
}

TEST(FoldRefusals, ANormalizerWhoseGainIsReadElsewhere) {
  GraphBuilder g;
  const Var y = g.linear(g.norm(x3(g)), "fc", 5);
  Parameter& gain = const_cast<Parameter&>(*g.tape.parameter_of(g.tape.nodes()[0]->inputs()[1]));
  const Var penalty = sum(g.tape.parameter(gain));
  const FoldedGraph folded = fold(graph_of(g.tape, {y, penalty}, {"norm"}), g.sites(), g.values());
  EXPECT_EQ(folded.reports[0].kept[0].reason, "its parameter norm.weight is also read by sum");
}

TEST(FoldRefusals, AnOnlineNormalizerBehindIt) {
  GraphBuilder g;
  const Var y = g.linear(g.norm(g.norm(x3(g), "first"), "second", "ln"), "fc", 5);
  const FoldedGraph folded = fold(graph_of(g.tape, {y}, g.site_names()), g.sites(), g.values());
  EXPECT_EQ(folded.reports[0].kept[0].edge, "first -> second");
  EXPECT_EQ(folded.reports[0].kept[0].reason, "it has statistics, or is not an affine map");
  EXPECT_EQ(folded.reports[1].outcome, SiteReport::Outcome::folded);
}

TEST(FoldRefusals, CentringBehindIt) {
  EXPECT_EQ(refusal(
                [](GraphBuilder& g) {
                  return Vars{g.linear(g.norm(g.norm(x3(g), "first"), "second", "centernorm"), "fc", 5)};
                },
                {}, "first"),
            "first -> second: it mixes the channels");
}

TEST(FoldRefusals, EmbeddingsThatSomethingElseReads) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = embedding(g.parameter("table", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
              return Vars{relu(g.norm(x)), x};
            }),
            "norm -> relu: relu is not linear");
}

TEST(FoldRefusals, PositionsThatAreNoParameter) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = embedding(g.parameter("table", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
              return Vars{relu(g.norm(learned_positions(x, g.tape.constant(randn({3, 4}, 1)))))};
            }),
            "norm -> relu: relu is not linear");
}

TEST(FoldRefusals, NamesThatAreTaken) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var other = add_bias(x3(g), g.parameter("head.bias", {4}));
              const Var y = linear(g.norm(x3(g)), g.parameter("head.weight", {5, 4}));
              return Vars{y, other};
            }),
            "norm -> linear: it has no bias, and the name head.bias is taken");
}

}  // namespace
}  // namespace foldgrad::testing
