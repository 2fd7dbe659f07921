// Tests that maps fold into the channels-last convolutions before and after them.
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/reshape/reshape.h"
#include "tests/harness/properties.h"
#include "tests/models/fold/graphs.h"

namespace foldgrad::testing {
namespace {

// Applies NAME.weight, and NAME.bias if `bias` is true or folding has created it.
Var conv(GraphBuilder& g, const Var& x, const Conv2dChannelsLastOptions& o = {}, bool bias = true,
         const std::string& name = "conv", std::int64_t out = 4, std::int64_t kernel = 3) {
  const Tape::Scope inside(g.tape, name);
  const Var W = g.parameter(name + ".weight", {out, x.shape()[-1] / o.groups, kernel, kernel});
  if (!bias && !g.has(name + ".bias")) return conv2d_channels_last(x, W, o);
  return conv2d_channels_last(x, W, g.parameter(name + ".bias", {out}), o);
}

// Builds a stem: a convolution, a normalizer, gelu, and the next convolution.
Vars stem(GraphBuilder& g, bool bias, const std::string& kind, const Conv2dChannelsLastOptions& o = {.padding = 1}) {
  const Var y = gelu(g.norm(conv(g, g.input({2, 5, 4, 3}), o, bias), "norm", kind));
  return {conv(g, y, {.padding = 1}, true, "next")};
}

TEST(FoldConvolution, FOLD_3_TheNormalizerBehindAConvolution) {
  for (const char* kind : {"affine", "un", "bn"})
    for (bool bias : {false, true}) {
      const FoldedGraph folded = fold_and_compare([&](GraphBuilder& g) { return stem(g, bias, kind); });
      EXPECT_EQ(folded.reports[0].outcome, SiteReport::Outcome::folded) << kind;
      EXPECT_EQ(folded.reports[0].into, std::vector<std::string>{"conv.weight"});
      EXPECT_EQ(folded.created.count("conv.bias"), bias ? 0u : 1u);
      EXPECT_FALSE(folded.sites.count("norm"));
    }
}

// The normalizer reads the map as rows of tokens.
TEST(FoldConvolution, FOLD_3_ThroughAReshape) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              const Var z = reshape(conv(g, g.input({2, 5, 4, 3}), {.padding = 1}), {2, 20, 4});
              return Vars{g.linear(relu(g.norm(z)), "fc", 5)};
            }),
            "folded");
}

// W = (1 2) for two channels, A = 10 and B = 3, so W' = (10 20) and b' = 10 * 0.5 + 3.
TEST(FoldConvolution, FOLD_3_WorkedByHand) {
  Tape tape;
  Parameter W{"conv.weight", Tensor::of<double>({1, 2, 1, 1}, {1, 2})}, b{"conv.bias", Tensor::of<double>({1}, {0.5})};
  const auto norm = make_normalizer("affine", {}, "norm", 1, DType::f64);
  const Var z = conv2d_channels_last(tape.variable(randn({1, 2, 2, 2}, 1)), tape.parameter(W), tape.parameter(b));
  const Var y = relu(norm->apply(z, {}));
  const FoldedGraph folded = fold_by_hand(y, *norm, {"norm", true, {{10}, {3}}, "affine"}, {&W, &b});
  EXPECT_TRUE(identical(folded.parameters.at("conv.weight"), Tensor::of<double>({1, 2, 1, 1}, {10, 20})));
  EXPECT_TRUE(identical(folded.parameters.at("conv.bias"), Tensor::of<double>({1}, {8})));
}

// The convolution's own activation separates the normalizer from the weight.
TEST(FoldConvolution, ANormalizerBehindAnActivation) {
  EXPECT_EQ(
      refusal([](GraphBuilder& g) { return stem(g, true, "affine", {.padding = 1, .activation = Activation::gelu}); }),
      "norm -> gelu: gelu is not linear");
}

// The map folds into the convolution that reads it. If the convolution has its own activation, the bias that folding
// creates is added before the activation.
TEST(FoldConvolution, FOLD_1_IntoAConvolutionWithoutPadding) {
  for (const char* kind : {"affine", "centernorm", "bn"})
    for (bool bias : {false, true})
      for (const Conv2dChannelsLastOptions& o :
           {Conv2dChannelsLastOptions{}, {.stride = 2}, {.activation = Activation::relu}}) {
        const FoldedGraph folded = fold_and_compare([&](GraphBuilder& g) {
          return Vars{conv(g, g.norm(g.input({2, 5, 4, 3}), "norm", kind), o, bias)};
        });
        EXPECT_EQ(folded.reports[0].outcome, SiteReport::Outcome::folded) << kind;
        EXPECT_EQ(folded.reports[0].into, std::vector<std::string>{"conv.weight"});
      }
}

// The kernel has two columns for each of two channels. A = (10, 100) turns W = (1 2; 3 4) into W' = (10 20; 300 400).
// With B = (1, -1), b' = 1 * 1 + 2 * 1 + 3 * -1 + 4 * -1 = -4.
TEST(FoldConvolution, FOLD_1_WorkedByHand) {
  Tape tape;
  Parameter W{"conv.weight", Tensor::of<double>({1, 2, 1, 2}, {1, 2, 3, 4})};
  const auto norm = make_normalizer("affine", {}, "norm", 2, DType::f64);
  const Var y = conv2d_channels_last(norm->apply(tape.variable(randn({1, 2, 2, 2}, 1)), {}), tape.parameter(W));
  const FoldedGraph folded = fold_by_hand(y, *norm, {"norm", true, {{10, 100}, {1, -1}}, "affine"}, {&W});
  EXPECT_TRUE(identical(folded.parameters.at("conv.weight"), Tensor::of<double>({1, 2, 1, 2}, {10, 20, 300, 400})));
  EXPECT_TRUE(identical(folded.parameters.at("conv.bias"), Tensor::of<double>({1}, {-4})));
}

// A bias that is added after the activation does not belong to the convolution.
TEST(FoldConvolution, ABiasBehindTheActivationStays) {
  const FoldedGraph folded = fold_and_compare([](GraphBuilder& g) {
    const Var y = conv(g, g.norm(g.input({2, 5, 4, 3})), {.activation = Activation::relu}, /*bias=*/false);
    return Vars{add_bias(y, g.parameter("later", {4}))};
  });
  EXPECT_EQ(folded.created, std::set<std::string>{"conv.bias"});
}

TEST(FoldConvolution, IntoSomeOfTheChannels) {
  const FoldedGraph folded = fold_and_compare([](GraphBuilder& g) {
    const Var x = g.input({2, 5, 4, 3}), y = concat({x, g.norm(x, "a"), g.norm(x, "b", "centernorm")}, 3);
    return Vars{conv(g, y)};
  });
  for (const SiteReport& r : folded.reports) EXPECT_EQ(r.outcome, SiteReport::Outcome::folded) << r.site;
}

TEST(FoldConvolution, Padding) {
  const auto padded = [](bool zero_bias) {
    return refusal([=](GraphBuilder& g) {
      return Vars{conv(g, g.norm(g.input({2, 5, 4, 3}), "norm", "affine", zero_bias), {.padding = 1})};
    });
  };
  EXPECT_EQ(padded(false),
            "norm -> conv: conv2d_channels_last: the convolution pads with zeros, but folding would pad with the map's "
            "bias B");
  EXPECT_EQ(padded(true), "folded");  // without B, zeros stay zeros
}

// In a convolution with groups, each row of the weight still belongs to one output channel, so a normalizer after it
// folds. A column belongs to a different input channel in each group, so a normalizer before it does not.
TEST(FoldConvolution, FOLD_3_BehindGroups) {
  for (std::int64_t groups : {2, 4}) {
    const FoldedGraph folded = fold_and_compare([groups](GraphBuilder& g) {
      return Vars{relu(g.norm(conv(g, g.input({2, 5, 4, 4}), {.padding = 1, .groups = groups}, false), "norm", "bn"))};
    });
    EXPECT_EQ(folded.reports[0].into, std::vector<std::string>{"conv.weight"});
  }
}
TEST(FoldConvolution, NothingGoesForwardIntoGroups) {
  EXPECT_EQ(refusal([](GraphBuilder& g) {
              return Vars{conv(g, g.norm(g.input({2, 5, 4, 4})), {.groups = 2})};
            }),
            "norm -> conv: conv2d_channels_last: the convolution has groups, so a row of its weight covers only some "
            "of the channels");
}

// Both normalizers around a convolution without padding fold into it: the first forwards, the second backwards.
RC_GTEST_PROP(FoldConvolution, FOLD_1_FOLD_3_OnBothSides, ()) {
  const int C = *rc::gen::inRange(1, 4), out = *rc::gen::inRange(1, 4), stride = *rc::gen::inRange(1, 3),
            kernel = *rc::gen::inRange(1, 4);
  const bool bias = *rc::gen::arbitrary<bool>();
  const FoldedGraph folded = fold_and_compare([&](GraphBuilder& g) {
    const Var y = g.norm(g.input({2, 4, 5, C}), "first");
    return Vars{relu(g.norm(conv(g, y, {.stride = stride}, bias, "conv", out, kernel), "second", "bn"))};
  });
  RC_ASSERT(folded.reports.size() == 2u);
  for (const SiteReport& r : folded.reports) {
    RC_ASSERT(r.outcome == SiteReport::Outcome::folded);
    RC_ASSERT(r.into == std::vector<std::string>{"conv.weight"});
  }
}

}  // namespace
}  // namespace foldgrad::testing
