#include "train/analyses/cka.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/error_message.h"
#include "tests/models/vit/tiny_vit.h"
#include "train/analyses/layer_outputs.h"

namespace foldgrad::testing {
namespace {

// (i a + k b + i k) mod 17, in eighths.
Tensor features(std::int64_t n, std::int64_t p, std::int64_t a, std::int64_t b) {
  const Tensor x = Tensor::empty({n, p}, DType::f64);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < p; ++k) x.data<double>()[i * p + k] = double((i * a + k * b + i * k) % 17) / 8;
  return x;
}

double cka(const std::vector<std::pair<Tensor, Tensor>>& batches) {
  MinibatchCka sums;
  for (const auto& [x, y] : batches) sums.add({gram_of(x)}, {gram_of(y)});
  return sums.values().at(0).at(0);
}

// x = (1, 1, 0, 0) has K_01 = 1 alone off the diagonal, y = (1, 0, 1, 0) has L_02:
// HSIC1(K, K) = (2 + 4/6 - 2) / 4, HSIC1(K, L) = (0 + 4/6 - 1) / 4.
TEST(Cka, WorkedByHand) {
  const Gram K = gram_of(Tensor::of<double>({4, 1}, {1, 1, 0, 0})),
             L = gram_of(Tensor::of<float>({4, 1}, {1, 0, 1, 0}));
  EXPECT_NEAR(hsic1(K, K), 1. / 6, 1e-15);
  EXPECT_NEAR(hsic1(L, L), 1. / 6, 1e-15);
  EXPECT_NEAR(hsic1(K, L), -1. / 12, 1e-15);
  MinibatchCka sums;
  sums.add({K}, {K, L});
  EXPECT_NEAR(sums.values()[0][0], 1, 1e-15);
  EXPECT_NEAR(sums.values()[0][1], -0.5, 1e-15);
}

// The formula of cka.h with NumPy 2.4.6, of the matrices as they are: repr() of HSIC1 and CKA, of one minibatch and
// two.
TEST(Cka, IsThatOfNumPy) {
  const Tensor x = features(9, 6, 5, 3), y = features(9, 4, 2, 7);
  EXPECT_NEAR(hsic1(gram_of(x), gram_of(y)), -0.15383894985945046, 1e-12);
  EXPECT_NEAR(hsic1(gram_of(x), gram_of(x)), 0.8111268704530495, 1e-12);
  EXPECT_NEAR(cka({{x, y}}), -0.2783789655431023, 1e-12);
  EXPECT_NEAR(cka({{x, y}, {features(9, 6, 3, 4), features(9, 4, 6, 5)}}), -0.22199511683463177, 1e-12);
}

// In f64 all of it is exact but for rounding, which a shift of 1e6 makes 1e6 times larger.
TEST(Cka, StaysWhereFeaturesAreRotatedScaledOrMoved) {
  const Tensor x = features(20, 2, 5, 3), y = features(20, 3, 2, 7);
  const double want = cka({{x, y}});
  EXPECT_GT(std::abs(want), 0.01);
  EXPECT_NEAR(cka({{x, x}}), 1, 1e-12);
  const Tensor rotated = x.clone(), moved = x.clone();
  for (std::int64_t i = 0; i < 20; ++i) {
    const double u = x.data<double>()[2 * i], v = x.data<double>()[2 * i + 1];
    rotated.data<double>()[2 * i] = 3 * (0.6 * u - 0.8 * v);
    rotated.data<double>()[2 * i + 1] = 3 * (0.8 * u + 0.6 * v);
    moved.data<double>()[2 * i] += 1e6;
  }
  EXPECT_NEAR(cka({{x, rotated}}), 1, 1e-12);
  EXPECT_NEAR(cka({{rotated, y}}), want, 1e-12);
  EXPECT_NEAR(cka({{moved, y}}), want, 1e-9);
}

TEST(Cka, IsNotANumberWhereFeaturesDoNotVary) {
  EXPECT_TRUE(std::isnan(cka({{Tensor::full({7, 3}, 0.1, DType::f64), features(7, 2, 5, 3)}})));
  EXPECT_EQ(message<std::invalid_argument>([] {
              gram_of(Tensor::zeros({3, 2}, DType::f64));
            }),
            "CKA needs at least 4 examples in a minibatch, got 3");
  EXPECT_EQ(message<std::invalid_argument>([] { hsic1(gram_of(features(5, 1, 1, 1)), gram_of(features(4, 1, 1, 1))); }),
            "CKA needs the same examples on both sides, got 5 and 4");
}

TEST(LayerOutputs, OfEveryNormalizerAndSublayer) {
  Vit vit(tiny_vit("un"), 3);
  randomize(vit, 5);
  const std::vector<LayerOutput> outputs = layer_outputs(vit, vit.random_inputs(1), DType::f32);
  std::vector<std::string> names;
  for (const LayerOutput& o : outputs) {
    names.push_back(o.layer);
    EXPECT_EQ(o.values.shape(), (Shape{8 * 5, 8})) << o.layer;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"blocks.0.norm1", "blocks.0.attn", "blocks.0.norm2", "blocks.0.mlp",
                                      "blocks.1.norm1", "blocks.1.attn", "blocks.1.norm2", "blocks.1.mlp", "norm"}));
}

// Rows of tokens alone, and with surplus rows after those of each sentence.
TEST(LayerOutputs, MeanOverTokens) {
  const Tensor tokens = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}),
               all = Tensor::of<float>({6, 2}, {1, 2, 3, 4, 90, 90, 5, 6, 90, 90, 90, 90});
  const Tensor mask = Tensor::of<std::uint8_t>({2, 3}, {1, 1, 0, 0, 1, 0});
  for (const Tensor& x : {tokens, all})
    EXPECT_EQ(mean_over_tokens(x, mask).values<double>(), (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(message<std::invalid_argument>([&] { mean_over_tokens(all.slice(0, 4), mask); }),
            "x must have a row for each of 3 tokens or 6 places, got 4");
  EXPECT_EQ(message<std::invalid_argument>([&] {
              mean_over_tokens(all.reshape({2, 3, 2}), mask);
            }),
            "x must be [N, C] and its mask [B, T], got [2, 3, 2] and [2, 3]");
}

TEST(LayerOutputs, RowsAreStacked) {
  const Tensor x = Tensor::of<float>({2, 3, 2}, {1, 2, 3, 4, 90, 90, 90, 90, 5, 6, 90, 90});
  EXPECT_EQ(stacked({x.slice(1, 2), x}).values<float>(),
            (std::vector<float>{90, 90, 5, 6, 90, 90, 1, 2, 3, 4, 90, 90, 90, 90, 5, 6, 90, 90}));
}

}  // namespace
}  // namespace foldgrad::testing
