// Tests graphs in which a map does not fold. Folding must not change their results, and must report the edge at fault
// and the reason.
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
#include "ops/rotary/rotary.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

const Refusal kRefusals[] = {
    {"AResultOfTheForwardPass",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g));
       return Vars{g.linear(y, "fc", 5), y};
     },
     "norm -> the result: the value is returned, so it must not change"},
    {"AnActivation", [](GraphBuilder& g) { return Vars{g.linear(relu(g.norm(x3(g))), "fc", 5)}; },
     "norm -> relu: relu is not linear"},
    {"OneOfTwoReadersIsNotLinear",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g));
       return Vars{g.linear(y, "fc", 5), softmax(y)};
     },
     "norm -> softmax: softmax is not linear"},
    {"ZerosBetweenItAndALinearLayer",
     [](GraphBuilder& g) {
       const Var mask = g.tape.constant(Tensor::of<double>({1, 2, 2}, {1, 1, 0, 0}));
       return Vars{g.linear(mul(g.norm(g.input({1, 2, 2})), mask), "fc", 5)};
     },
     "norm -> mul: an elementwise product also multiplies the map's bias B, but folding would add B after the product"},
    {"AProductThatDiffersFromChannelToChannelBehindCentring",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g), "norm", "centernorm", /*zero_bias=*/true);
       return Vars{g.linear(mul(y, g.tape.constant(randn({2, 3, 4}, 5))), "fc", 5)};
     },
     "norm -> mul: an elementwise product does not commute with a map that mixes channels"},
    {"PatchesWithPadding",
     [](GraphBuilder& g) {
       return Vars{g.linear(unfold(g.norm(g.input({2, 4, 4, 3})), 3, 3, {.padding = 1}), "fc", 4)};
     },
     "norm -> unfold: unfold pads with zeros, but folding would pad with the map's bias B"},
    {"PatchesAcrossTheChannels",
     [](GraphBuilder& g) {
       return Vars{g.linear(unfold(permute(g.norm(g.input({2, 3, 4, 4})), {0, 2, 3, 1}), 2, 2), "fc", 4)};
     },
     "norm -> unfold: unfold cuts the channel axis into patches"},
    {"AnotherWriterOfTheSameTokens",
     [](GraphBuilder& g) {
       const Var x = x3(g);
       return Vars{g.linear(concat({g.norm(x), x}, 1), "fc", 5)};
     },
     "norm -> concat: concat joins along an axis other than the channels"},
    {"APieceOfTheChannels", [](GraphBuilder& g) { return Vars{g.linear(slice(g.norm(x3(g)), 2, 1, 3), "fc", 5)}; },
     "norm -> slice: slice cuts the channels"},
    {"SelectedChannels",
     [](GraphBuilder& g) {
       const Var channels_first = permute(g.norm(x3(g)), {2, 0, 1});
       return Vars{g.linear(gather(channels_first, g.tape.constant(random_ids({5}, 4, 1))), "fc", 5)};
     },
     "norm -> gather: gather selects channels"},
    {"ChannelsTornIntoHeads",
     [](GraphBuilder& g) {
       return Vars{g.linear(reshape(g.norm(x3(g)), {2, 3, 2, 2}), "fc", 5)};
     },
     "norm -> reshape: reshape from [2, 3, 4] to [2, 3, 2, 2] splits up the channels"},
    {"ALinearLayerAlongAnotherAxis",
     [](GraphBuilder& g) {
       return Vars{g.linear(permute(g.norm(x3(g)), {0, 2, 1}), "mix", 5)};
     },
     "norm -> mix: linear: the layer's weight does not multiply the channel axis"},
    {"AverageOverChannels",
     [](GraphBuilder& g) {
       return Vars{g.linear(mean_pool(permute(g.norm(x3(g)), {0, 2, 1})), "fc", 5)};
     },
     "norm -> mean_pool: mean_pool averages over the channels"},
    {"ATableThatIsAlsoTheOutputProjection",
     [](GraphBuilder& g) {
       const Var x = embedding(g.parameter("table.weight", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
       return Vars{g.linear(g.norm(relu(x)), "table", 7)};
     },
     "norm -> table: linear: the layer's weight table.weight is also read by embedding"},
    {"AWeightThatIsUsedWithTwoMaps",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g));
       return Vars{g.linear(y, "fc", 5), g.linear(scale(y, 2), "fc", 5)};
     },
     "norm -> fc: linear: fc.weight is used with two different maps"},
    {"AWeightWithAPenaltyOfItsOwn",
     [](GraphBuilder& g) {
       const Var y = g.linear(g.norm(x3(g)), "fc", 5);
       return Vars{y, sum(g.parameter("fc.weight", {5, 4}))};
     },
     "norm -> fc: linear: the layer's weight fc.weight is also read by sum"},
    {"ABiasThatIsAddedElsewhereToo",
     [](GraphBuilder& g) {
       const Var x = x3(g), y = g.linear(g.norm(x), "fc", 4);
       return Vars{y, add_bias(x, g.parameter("fc.bias", {4}))};
     },
     "norm -> fc: linear: the layer's bias fc.bias is also read by add_bias"},
    {"AWeightThatIsNoParameter",
     [](GraphBuilder& g) {
       return Vars{linear(g.norm(x3(g)), g.tape.constant(randn({5, 4}, 1)))};
     },
     "norm -> linear: the layer's weight is not a parameter"},
    {"ABiasThatIsNoParameter",
     [](GraphBuilder& g) {
       return Vars{linear(g.norm(x3(g)), g.parameter("fc.weight", {5, 4}), g.tape.constant(randn({5}, 1)))};
     },
     "norm -> linear: the layer's bias is not a parameter, or the layers that share the weight have different biases"},
    {"ACopyWhoseNameIsTaken",
     [](GraphBuilder& g) {
       const Var x = embedding(g.parameter("table.weight", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
       const Var y = g.norm(relu(x)), other = sum(g.parameter("head.weight", {3}));
       const Tape::Scope inside(g.tape, "head");
       return Vars{linear(y, g.parameter("table.weight", {7, 4})), other};
     },
     "norm -> head: linear: a copy of the layer's weight would need the name head.weight, which is taken",
     {.tied = FoldOptions::Tied::untie}},
    {"AResultThatNothingReads",
     [](GraphBuilder& g) {
       const Var x = x3(g);
       g.norm(x);
       return Vars{g.linear(x, "fc", 5)};
     },
     "norm: nothing reads its result"},
    {"AWeightItself",
     [](GraphBuilder& g) {
       return Vars{linear(g.input({3, 4}), g.norm(g.parameter("W", {5, 4})))};
     },
     "norm -> linear: the value is used as a weight or bias"},
    {"ProductsOfActivations",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g));
       return Vars{matmul(y, permute(y, {0, 2, 1}))};
     },
     "norm -> matmul: matmul is not linear"},
    // A rotation mixes two columns, so it does not commute with a map that scales each channel.
    {"Rotary",
     [](GraphBuilder& g) {
       const Var y = rotary(g.norm(g.input({2, 4})), Tensor::of<std::int64_t>({2}, {0, 1}),
                            RotaryTable(2, 4, 1e4, DType::f64), 4);
       return Vars{g.linear(y, "fc", 5)};
     },
     "norm -> rotary: rotary mixes the columns of a pair"},
    {"Attention",
     [](GraphBuilder& g) {
       const Var x = g.input({3, 4});
       return Vars{attention(g.norm(x), x, x, {.heads = 2}, Segments({3}), Segments({3}))};
     },
     "norm -> attention: attention is not linear"},
    {"DropoutInTraining",
     [](GraphBuilder& g) {
       return Vars{g.linear(dropout(g.norm(x3(g)), 0.5, {1, 1, 1}), "fc", 5)};
     },
     "norm -> dropout: the recorded pass has dropout; record one at inference"},
    {"ANormalizerThatIsAppliedTwice",
     [](GraphBuilder& g) {
       const Var y = g.linear(g.norm(x3(g)), "fc", 4);
       return Vars{g.linear(g.norm(y), "fc2", 5)};
     },
     "norm: the normalizer is applied 2 times"},
    // In the next three graphs, relu blocks the forward fold, and the backward fold [FOLD-3] is refused, too.
    {"EmbeddingsThatSomethingElseReads",
     [](GraphBuilder& g) {
       const Var x = embedding(g.parameter("table", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
       return Vars{relu(g.norm(x)), x};
     },
     "norm -> relu: relu is not linear"},
    {"EmbeddingsThatAreCutIntoHeads",
     [](GraphBuilder& g) {
       const Var x = embedding(g.parameter("table", {7, 8}), g.tape.constant(random_ids({2, 3}, 7, 1)));
       return Vars{relu(g.norm(reshape(x, {2, 3, 2, 4})))};
     },
     "norm -> relu: relu is not linear"},
    {"PositionsThatAreNoParameter",
     [](GraphBuilder& g) {
       const Var x = embedding(g.parameter("table", {7, 4}), g.tape.constant(random_ids({2, 3}, 7, 1)));
       return Vars{relu(g.norm(learned_positions(x, g.tape.constant(randn({3, 4}, 1)))))};
     },
     "norm -> relu: relu is not linear"},
    {"NamesThatAreTaken",
     [](GraphBuilder& g) {
       const Var other = add_bias(x3(g), g.parameter("head.bias", {4}));
       const Var y = linear(g.norm(x3(g)), g.parameter("head.weight", {5, 4}));
       return Vars{y, other};
     },
     "norm -> linear: the layer has no bias, and the name head.bias is taken"},
    {"CentringBehindIt",
     [](GraphBuilder& g) { return Vars{g.linear(g.norm(g.norm(x3(g), "first"), "second", "centernorm"), "fc", 5)}; },
     "first -> second: this normalizer mixes the channels",
     {},
     "first"},
    {"ANormalizerOfMoreChannels",
     [](GraphBuilder& g) {
       const Var x = x3(g);
       return Vars{g.linear(g.norm(concat({g.norm(x, "first"), x}, 2), "second"), "fc", 5)};
     },
     "first -> second: the map covers only some of the channels",
     {},
     "first"},
};

class FoldRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(FoldRefusals, NameTheEdge) {
  const Refusal& row = GetParam();
  EXPECT_EQ(refusal(row.build, row.options, row.site), row.reason);
}
INSTANTIATE_TEST_SUITE_P(Graphs, FoldRefusals, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return row.param.name; });

// Two parameters that share storage count as one weight.
TEST(FoldRefused, ATableThatIsTheOutputProjectionByItsStorage) {
  Tape tape;
  Parameter table{"table", randn({7, 4}, 1)}, output{"output.weight", table.value};
  const auto norm = make_normalizer("affine", {}, "norm", 4, DType::f64);
  const Var x = embedding(tape.parameter(table), tape.constant(random_ids({2, 3}, 7, 1)));
  const Var y = linear(norm->apply(relu(x), {}), tape.parameter(output));
  const FoldedGraph folded =
      fold_by_hand(y, *norm, {"norm", true, {{2, 2, 2, 2}, {1, 1, 1, 1}}, "affine"}, {&table, &output});
  EXPECT_EQ(folded.reports[0].kept[0].reason, "the layer's weight table is also read by embedding");
}

// The two layers share a weight but read different normalizers.
TEST(FoldRefused, AWeightThatReadsTwoNormalizers) {
  const BuildGraph build = [](GraphBuilder& g) {
    const Var x = x3(g);
    return Vars{g.linear(g.norm(x, "a"), "fc", 5), g.linear(g.norm(x, "b"), "fc", 5)};
  };
  EXPECT_EQ(refusal(build, {}, "a"), "a -> fc: linear: the layer's weight fc.weight is also read by fc: linear");
  EXPECT_EQ(refusal(build, {}, "b"), "b -> fc: linear: the layer's weight fc.weight is also read by fc: linear");
}

TEST(FoldRefused, StatisticsInTraining) {
  GraphBuilder g;
  g.training = true;
  const Var y = g.linear(g.norm(x3(g), "norm", "bn"), "fc", 5);
  const FoldedGraph folded = g.folded({y});
  EXPECT_EQ(folded.reports[0].kept[0].reason, "the normalizer was recorded in training, where it has statistics");
}

TEST(FoldRefused, ANormalizerWhoseGainIsReadElsewhere) {
  for (const bool first : {false, true}) {
    Tape tape;
    Parameter W{"fc.weight", randn({5, 4}, 1)};
    const auto norm = make_normalizer("affine", {}, "norm", 4, DType::f64);
    const auto penalty = [&] { return sum(tape.parameter(*norm->parameters()[0])); };
    if (first) penalty();
    const Var y = linear(norm->apply(tape.variable(randn({3, 4}, 2)), {}), tape.parameter(W));
    if (!first) penalty();
    const FoldedGraph folded = fold_by_hand(y, *norm, {"norm", true, {{2, 2, 2, 2}, {1, 1, 1, 1}}, "affine"}, {&W});
    ASSERT_FALSE(folded.reports[0].kept.empty()) << first;
    EXPECT_EQ(folded.reports[0].kept[0].reason, "the normalizer's parameter norm.weight is also read by sum") << first;
  }
}

TEST(FoldRefused, AnOnlineNormalizerBehindIt) {
  GraphBuilder g;
  const Var y = g.linear(g.norm(g.norm(x3(g), "first"), "second", "ln"), "fc", 5);
  const FoldedGraph folded = g.folded({y});
  EXPECT_EQ(folded.reports[0].kept[0].edge, "first -> second");
  EXPECT_EQ(folded.reports[0].kept[0].reason, "this normalizer has statistics, or is not an affine map");
  EXPECT_EQ(folded.reports[1].outcome, SiteReport::Outcome::folded);
}

TEST(FoldRefused, ANormalizerBehindItThatIsNoSite) {
  Tape tape;
  Parameter W{"fc.weight", randn({5, 4}, 1)};
  const auto norm = make_normalizer("affine", {}, "norm", 4, DType::f64);
  const auto next = make_normalizer("affine", {}, "next", 4, DType::f64);
  const Var y = linear(next->apply(norm->apply(tape.variable(randn({3, 4}, 2)), {}), {}), tape.parameter(W));
  NamedTensors values{{W.name, W.value}};
  for (Normalizer* of : {norm.get(), next.get()})
    for (const Parameter* p : of->parameters()) values[p->name] = p->value;
  const FoldedGraph folded =
      fold(graph_of(tape, {y}, {"norm", "next"}), {fold_site(*norm, DType::f64, Device::cpu)}, values);
  EXPECT_EQ(folded.reports[0].kept[0].edge, "norm -> next");
  EXPECT_EQ(folded.reports[0].kept[0].reason, "this is not a normalizer site that folding supports");
}

}  // namespace
}  // namespace foldgrad::testing
