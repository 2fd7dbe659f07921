// Sums that do not fold, or in part: the edge into each is named.
#include <gtest/gtest.h>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/dropout/dropout.h"
#include "ops/softmax/softmax.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

TEST(FoldSumRefusals, ASumKeepsTheMap) {
  const BuildGraph build = [](GraphBuilder& g) {
    const Var y = g.norm(x3(g)), h = relu(g.linear(y, "fc", 4));
    const Var stream = g.stream(y, "sum"), sum = [&] {
      const Tape::Scope scope(g.tape, "sum");
      return add(stream, h);
    }();
    return Vars{g.linear(sum, "head", 5)};
  };
  EXPECT_EQ(refusal(build),
            "norm -> sum: add: a sum, and so whatever reads the stream behind it, needs the map itself");
  EXPECT_EQ(refusal(build, {.rescale_stream = true}),
            "norm -> sum: add: the stream cannot be rescaled: what is added to it is not of a linear layer alone");
}

TEST(FoldSumRefusals, ASumOfItsResultWithItself) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = g.norm(x3(g));
              return Vars{g.linear(add(y, y), "fc", 5)};
            }),
            "norm -> add: it is both parts of a sum");
}

TEST(FoldSumRefusals, ASumBehindASelection) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var y = slice(g.norm(x3(g)), 1, 0, 2);
              return Vars{g.linear(add(y, g.linear(y, "fc", 4)), "head", 5)};
            }),
            "norm -> add: a sum, but not of the normalizer's own result");
}

TEST(FoldSumRefusals, TheBranchOfASum) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var x = x3(g);
              return Vars{bias_dropout_residual(g.norm(x), g.parameter("b", {4}), x, 0, {})};
            }),
            "norm -> bias_dropout_residual: it is the branch of a sum");
}

TEST(FoldSumRefusals, DropoutOrDropPathInTraining) {
  for (const auto& [p, path_p] : {std::pair(0.5, 0.0), std::pair(0.0, 0.5)})
    EXPECT_EQ(refusal([&, p = p, path_p = path_p](GraphBuilder& g) {
                const Var stream = g.norm(x3(g)), branch = g.linear(x3(g), "fc", 4, /*bias=*/false);
                return Vars{bias_dropout_residual(branch, g.parameter("b", {4}), stream, p, {1, 2, 3}, {.p = path_p})};
              }),
              "norm -> bias_dropout_residual: dropout was recorded, so this is a forward pass in training");
}

// A stream that ends in something that is not linear: the reason says where.
TEST(FoldSumRefusals, AStreamThatSomethingElseReadsIsNotRescaled) {
  EXPECT_EQ(refusal(
                [](GraphBuilder& g) {
                  const Var y = g.norm(x3(g)), h = g.linear(relu(g.linear(y, "fc1", 6)), "fc2", 4);
                  const Var stream = g.stream(y, "sum"), sum = [&] {
                    const Tape::Scope scope(g.tape, "sum");
                    return add(h, stream);
                  }();
                  return Vars{softmax(sum)};
                },
                {.rescale_stream = true}),
            "norm -> sum: add: the stream cannot be rescaled: norm -> softmax: softmax is not linear");
}

}  // namespace
}  // namespace foldgrad::testing
