// Statistics of recordings: normality in windows, similarity of layers.
#include "train/analyses/pnac.h"

#include <cmath>

#include "tests/models/vit/tiny_vit.h"
#include "train/analyses/cka.h"

namespace foldgrad::testing {
namespace {

// scipy.stats.normaltest of these samples, SciPy 1.17.1: repr() of statistic and pvalue.
TEST(Normality, IsThatOfSciPy) {
  std::vector<double> cubes, waves;
  for (int i = 0; i < 20; ++i) cubes.push_back((i * 7 % 20) * (i * 7 % 20) / 16.0);
  for (int i = 0; i < 150; ++i) waves.push_back(std::round(std::exp(std::sin(i * 1.7)) * 1e4) / 1e4);
  const std::vector<double> outlier = {1.0,     0.5403,  -0.6536, -0.9111, -0.9577, 9.0,    -0.128, 0.3006,
                                       0.3919,  0.7767,  0.8623,  -0.0487, 0.8711,  0.7985, 0.3425, 0.3673,
                                       -0.0398, 0.9996,  -0.9147, -0.9602, -0.5253, 0.3837, 0.9811, 0.3507,
                                       -0.4638, -0.9844, -0.8485, 0.9887,  0.1718,  0.5843, 0.0662, 0.9469};
  const struct {
    std::vector<double> sample;
    double k2, p;
  } rows[] = {{{0.0, 2.524, 2.728, 0.423, -2.27, -2.877, -0.838, 1.971}, 1.1755676734566332, 0.5555571267654453},
              {cubes, 2.5965136546761878, 0.273007277310323},
              {outlier, 60.97632890302592, 5.74325917894722e-14},
              {waves, 90.86251134397426, 1.8597576581026227e-20}};
  for (const auto& [sample, k2, p] : rows) {
    const Normality got = normality_of(sample);
    EXPECT_NEAR(got.k2, k2, 1e-12 * k2) << sample.size();
    EXPECT_NEAR(got.p, p, 1e-12 * p * (1 + k2)) << sample.size();  // exp(-k2/2) has k2/2 times k2's error
  }
  EXPECT_TRUE(std::isnan(normality_of(std::vector<double>(9, 2.0)).p));
  EXPECT_EQ(message<std::invalid_argument>([] { normality_of(std::vector<double>(7)); }),
            "a test of normality needs at least 8 values, got 7");
}

// The test's own level at these windows is 94 % to 95 %, by 4,000 channels each with SciPy.
TEST(Pnac, OfNoiseIsThatOfTheTestItself) {
  for (const std::int64_t window : {20, 32, 50, 150}) {
    const std::vector<double> noise = pnac_of_noise(window + 1, 4000, window);
    ASSERT_EQ(noise.size(), 2u);
    for (const double percent : noise) EXPECT_NEAR(percent, 94.5, 1.5) << window;  // three deviations, and the table's
    EXPECT_EQ(noise, pnac_of_noise(window + 1, 4000, window));
  }
}

TEST(Pnac, CountsTheChannelsThatPassInEveryWindow) {
  constexpr std::int64_t kRows = 40, kChannels = 4, kWindow = 20;
  std::vector<float> values(kRows * kChannels);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto place = float((r * 7) % 20);                      // every window has the places 0 to 19 once
    values[r * kChannels] = place * place;                       // passes: p = 0.27
    values[r * kChannels + 1] = place + (r == 5 ? 500.f : 0.f);  // fails in windows with row 5
    values[r * kChannels + 2] = 1;                               // always fails: it is constant
    values[r * kChannels + 3] = r == 39 ? NAN : place * place;   // fails in the last window
  }
  const std::vector<double> got = pnac(values, kChannels, kWindow);
  ASSERT_EQ(got.size(), 21u);
  for (std::size_t w = 0; w < got.size(); ++w) {
    const int passed = 1 + (w > 5) + (w < 20);
    EXPECT_EQ(got[w], 25.0 * passed) << w;
  }
  EXPECT_EQ(message<std::invalid_argument>([&] { pnac(values, kChannels, 41); }),
            "--window must be at most 40, the iterations that are recorded, got 41");
  EXPECT_EQ(message<std::invalid_argument>([&] { pnac(values, kChannels, 7); }),
            "--window must be at least 8, the least sample of the test of normality, got 7");
}

TEST(MovingMeans, OfTheLastValues) {
  const MovingMeans m = moving_means({1, 4, 16, 4, 0}, 2);
  EXPECT_EQ(m.arithmetic, (std::vector<double>{2.5, 10, 10, 2}));
  ASSERT_EQ(m.geometric.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(m.geometric[i], (std::vector<double>{2, 8, 8, 0})[i], 1e-14);
  EXPECT_TRUE(std::isnan(moving_means({-1, 1}, 2).geometric[0]));
  const std::vector<double> two{1, 2};
  EXPECT_EQ(message<std::invalid_argument>([&] { moving_means(two, 3); }),
            "--window must be in [1, 2], the iterations that are recorded, got 3");
}

// Of the four channels one is 0 once and one always.
TEST(MovingMeans, ChannelsWithAZeroStandOutInNothing) {
  const SiteRecording site{.site = "norm", .channels = 4, .q = {0, 2, 1, 0, 5, 2, 4, 0, 5, 3, 9, 0}};
  EXPECT_EQ(outstanding_channels(site, 2), (std::pair<std::int64_t, std::int64_t>{1, 2}));
  const SiteRecording zeros{.site = "norm", .channels = 2, .q = {0, 0, 0, 0}};
  EXPECT_EQ(outstanding_channels(zeros, 2), (std::pair<std::int64_t, std::int64_t>{0, 0}));
}

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

// x = (1, 1, 0, 0) has only K_01 off the diagonal, y = (1, 0, 1, 0) has L_02: HSIC1(K, K) = (2 + 4/6 - 2) / 4, HSIC1(K,
// L) = (0 + 4/6 - 1) / 4.
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

// The formula of cka.h with NumPy 2.4.6 on the matrices themselves: repr() of HSIC1 and CKA, of one minibatch and two.
TEST(Cka, IsThatOfNumPy) {
  const Tensor x = features(9, 6, 5, 3), y = features(9, 4, 2, 7);
  EXPECT_NEAR(hsic1(gram_of(x), gram_of(y)), -0.15383894985945046, 1e-12);
  EXPECT_NEAR(hsic1(gram_of(x), gram_of(x)), 0.8111268704530495, 1e-12);
  EXPECT_NEAR(cka({{x, y}}), -0.2783789655431023, 1e-12);
  EXPECT_NEAR(cka({{x, y}, {features(9, 6, 3, 4), features(9, 4, 6, 5)}}), -0.22199511683463177, 1e-12);
}

// In f64 all of it is exact except for rounding, which a shift of 1e6 makes 1e6 times larger.
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
  EXPECT_EQ(message<std::invalid_argument>([] { gram_of(features(3, 2, 1, 1)); }),
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

TEST(LayerOutputs, MeanOverRows) {
  const Tensor x = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), lengths = Tensor::of<std::int64_t>({2}, {2, 1});
  EXPECT_EQ(mean_over_rows(x, lengths).values<double>(), (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(message<std::invalid_argument>([&] { mean_over_rows(x.slice(0, 2), lengths); }),
            "x must be [3, C], got [2, 2]");
}

}  // namespace
}  // namespace foldgrad::testing
