// Tests residual sums that keep a map, and streams that cannot be rescaled. Folding must report the edge at fault and
// the reason.
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/dropout/dropout.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

const Refusal kSumRefusals[] = {
    {"ASumOfItsResultWithItself",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g));
       return Vars{g.linear(add(y, y), "fc", 5)};
     },
     "norm -> add: the value is both operands of a sum"},
    {"ASumBehindASelection",
     [](GraphBuilder& g) {
       const Var y = slice(g.norm(x3(g)), 1, 0, 2);
       return Vars{g.linear(add(y, g.linear(y, "fc", 4)), "head", 5)};
     },
     "norm -> add: the sum does not add the normalizer's own result"},
    {"TheBranchOfASum",
     [](GraphBuilder& g) {
       const Var x = x3(g);
       return Vars{bias_dropout_residual(g.norm(x), g.parameter("b", {4}), x, 0, {})};
     },
     "norm -> bias_dropout_residual: the value is the branch of a sum"},
    {"TwoSumsInOneScope",
     [](GraphBuilder& g) {
       const Var x = x3(g), y = g.norm(x);
       return Vars{g.linear(g.sum(y, [&](const Var& stream) { return add(add(stream, x), x); }), "head", 5)};
     },
     "norm -> sum: add: the scope of this sum contains another sum, so it is ambiguous where the map belongs"},
    // A nonlinear operation reads the stream; the reason names the edge to it.
    {"AStreamThatSomethingElseReadsIsNotRescaled",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g)), h = g.linear(relu(g.linear(y, "fc1", 6)), "fc2", 4);
       return Vars{softmax(g.sum(y, [&](const Var& stream) { return add(h, stream); }))};
     },
     "norm -> sum: add: the stream cannot be rescaled because of norm -> softmax: softmax is not linear",
     {.rescale_stream = true}},
    {"AStreamBehindCentringIsNotRescaled",
     [](GraphBuilder& g) {
       const Var x = x3(g), y = g.norm(x, "norm", "centernorm");
       return Vars{g.linear(g.sum(y, [&](const Var& stream) { return add(g.linear(x, "fc", 4), stream); }), "head", 5)};
     },
     "norm -> sum: add: the stream cannot be rescaled: the map mixes the channels",
     {.rescale_stream = true}},
    {"ABranchWhoseWeightIsReadElsewhere",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g)), h = g.linear(relu(g.linear(y, "fc1", 6)), "fc2", 4);
       const Var stream = g.sum(y, [&](const Var& x) { return add(h, x); });
       return Vars{g.linear(stream, "head", 5), sum(g.parameter("fc2.weight", {4, 6}))};
     },
     "norm -> sum: add: the stream cannot be rescaled: fc2.weight is used elsewhere, or its layer reads the stream "
     "directly",
     {.rescale_stream = true}},
    // Planning reaches the sum before the layer of its branch, so only the last check finds that this layer reads the
    // stream.
    {"ABranchThatReadsTheStream",
     [](GraphBuilder& g) {
       const Var y = g.norm(x3(g)), stream = scale(y, 2);
       const Var branch = g.linear(scale(y, 3), "fc", 4);
       return Vars{g.linear(add(branch, stream), "head", 5)};
     },
     "norm -> fc.weight: the layer of this weight is in a branch and reads the stream directly",
     {.rescale_stream = true}},
};

class FoldSumRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(FoldSumRefusals, NameTheEdge) {
  const Refusal& row = GetParam();
  EXPECT_EQ(refusal(row.build, row.options, row.site), row.reason);
}
INSTANTIATE_TEST_SUITE_P(Graphs, FoldSumRefusals, ::testing::ValuesIn(kSumRefusals),
                         [](const auto& row) { return row.param.name; });

TEST(FoldSumRefused, APartOfTheStreamOfAnOnlineNormalizer) {
  GraphBuilder g;
  const Var x = x3(g), stream = concat({g.norm(x, "norm", "ln"), x}, 2);
  const Var y = g.linear(add(g.linear(relu(x), "fc", 8), stream), "head", 5);
  const FoldedGraph folded = g.folded({y}, {.rescale_stream = true});
  EXPECT_EQ(folded.reports[0].kept[0].reason, "the stream cannot be rescaled: the map covers only part of the stream");
}

TEST(FoldSumRefused, ASumKeepsTheMap) {
  const BuildGraph build = [](GraphBuilder& g) {
    const Var y = g.norm(x3(g)), h = relu(g.linear(y, "fc", 4));
    return Vars{g.linear(g.sum(y, [&](const Var& stream) { return add(stream, h); }), "head", 5)};
  };
  EXPECT_EQ(refusal(build), "norm -> sum: add: the sum and all later readers of the stream need the map");
  EXPECT_EQ(
      refusal(build, {.rescale_stream = true}),
      "norm -> sum: add: the stream cannot be rescaled: the added branch is not the direct result of a linear layer");
}

TEST(FoldSumRefused, DropoutOrDropPathInTraining) {
  for (const auto& [p, path_p] : {std::pair(0.5, 0.0), std::pair(0.0, 0.5)})
    EXPECT_EQ(refusal([&, p = p, path_p = path_p](GraphBuilder& g) {
                const Var stream = g.norm(x3(g)), branch = g.linear(x3(g), "fc", 4, /*bias=*/false);
                return Vars{bias_dropout_residual(branch, g.parameter("b", {4}), stream, p, {1, 2, 3}, {.p = path_p})};
              }),
              "norm -> bias_dropout_residual: the recorded pass has dropout; record one at inference");
}

}  // namespace
}  // namespace foldgrad::testing
