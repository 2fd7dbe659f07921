// Tests folding across weighted sums over tokens. A map folds exactly only if the pooling weights sum to 1 or B is 0.
#include "ops/weighted_pool/weighted_pool.h"

#include "ops/activation/activation.h"
#include "ops/dropout/dropout.h"
#include "ops/permute/permute.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

// Returns "folded" if a normalizer before a pooling folds, otherwise the edge at fault and the reason. The pooling sums
// over the 4 tokens of the normalizer's result [2, 4, 3]. A linear layer computes scores [2, 4, 1] from the same
// result, and `weights_of` turns these scores into the pooling weights.
std::string pooled(const std::function<Var(GraphBuilder&, const Var&)>& weights_of, const std::string& kind = "affine",
                   bool zero_bias = false) {
  return refusal([&](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 4, 3}), "norm", kind, zero_bias);
    const Var scores = g.linear(y, "attention_pool", 1);
    return Vars{g.linear(weighted_pool(y, weights_of(g, scores)), "head", 5)};
  });
}

Var rows(const Var& scores) { return reshape(scores, {2, 4}); }

TEST(FoldWeightedPool, SequencePooling) {
  for (const char* kind : {"affine", "centernorm", "bn"})
    EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) { return softmax(rows(scores)); }, kind), "folded");
  const FoldedGraph folded = fold_and_compare([](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 4, 3}));
    const Var weights = softmax(rows(g.linear(y, "attention_pool", 1)));
    return Vars{g.linear(weighted_pool(y, weights), "head", 5)};
  });
  EXPECT_EQ(folded.reports[0].into, (std::vector<std::string>{"attention_pool.weight", "head.weight"}));
}

TEST(FoldWeightedPool, ASoftmaxThatIsReshapedBehind) {
  EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) {
              return reshape(softmax(permute(scores, {0, 2, 1})), {2, 4});
            }),
            "folded");
}

const char* const kNotOne =
    "norm -> weighted_pool: weighted_pool multiplies the map's bias B by the sum of the pooling weights, which is 1 "
    "only for a softmax";

TEST(FoldWeightedPool, WeightsThatNeedNotSumToOne) {
  EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) { return sigmoid(rows(scores)); }), kNotOne);
  EXPECT_EQ(pooled([](GraphBuilder& g, const Var&) { return g.tape.constant(randn({2, 4}, 7)); }), kNotOne);
  EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) {
              return dropout(softmax(rows(scores)), 0.5, {1, 1, 1});
            }),
            kNotOne);
}

TEST(FoldWeightedPool, ASoftmaxOverPiecesOfTheTokens) {
  EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) {
              return reshape(softmax(reshape(scores, {2, 2, 2})), {2, 4});
            }),
            kNotOne);
}

TEST(FoldWeightedPool, AnyWeightsWhereBIsZero) {
  EXPECT_EQ(pooled([](GraphBuilder&, const Var& scores) { return sigmoid(rows(scores)); }, "affine",
                   /*zero_bias=*/true),
            "folded");
}

TEST(FoldWeightedPool, TheWeightsThemselves) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{g.linear(weighted_pool(g.input({2, 4, 3}), g.norm(g.input({2, 4}))), "head", 5)};
            }),
            "norm -> weighted_pool: weighted_pool uses this tensor as its weights");
}

TEST(FoldWeightedPool, ASumOverChannels) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = permute(g.norm(g.input({2, 4, 3})), {0, 2, 1});
              return Vars{g.linear(weighted_pool(y, softmax(g.tape.constant(randn({2, 3}, 1)))), "head", 5)};
            }),
            "norm -> weighted_pool: weighted_pool sums over the channels");
}

}  // namespace
}  // namespace foldgrad::testing
