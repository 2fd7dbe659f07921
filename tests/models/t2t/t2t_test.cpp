// Tests T2T-ViT: sizes, initial values, error messages, token modules and their diagnostics, agreement with the
// published PyTorch model, and the layers into which its normalizers fold. images/families_test.cpp and
// families/model_test.cpp test the properties that T2T-ViT shares with other families.
#include "tests/models/spread.h"
#include "tests/models/t2t/tiny_t2t.h"

namespace foldgrad::testing {
namespace {

using Values = std::vector<std::int64_t>;

T2tConfig sized(std::int64_t image_size, std::int64_t classes, const Values& kernels, const Values& strides,
                const Values& paddings) {
  T2tConfig config;
  config.image_size = image_size, config.classes = classes;
  config.kernels = kernels, config.strides = strides, config.paddings = paddings;
  return config;
}
T2tConfig published(std::int64_t classes) { return sized(224, classes, {7, 3, 3}, {4, 2, 2}, {2, 1, 1}); }
T2tConfig micro(std::int64_t token_width) {
  T2tConfig config = token_width == 64 ? sized(32, 10, {7, 3, 3}, {2, 2, 1}, {3, 1, 1})
                                       : sized(32, 10, {3, 3, 3}, {1, 2, 2}, {1, 1, 1});
  config.token_width = token_width;
  config.width = 192, config.ffn_width = 384, config.heads = 3, config.layers = 6;
  return config;
}
T2tConfig with_softmax(T2tConfig config) {
  config.token_attention = "softmax";
  return config;
}

// The numbers of parameters are published or counted by hand. We also count the multiplications, `products`, by hand: a
// Performer module multiplies for kqv, w q, w k, f(k)^T v, f(q) (f(k)^T v), proj and the feed-forward block. Our code
// needs `more` for each token: 2 e m to multiply the squares of q and k by a constant matrix, and m to multiply f(q) by
// the sum of f(k).
TEST(T2t, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  const auto check = [](const T2tConfig& config, std::int64_t parameters, std::int64_t products, std::size_t sites) {
    std::int64_t more = 0;
    const std::int64_t e = config.token_width, m = e / 2;
    for (std::size_t i = 1; i < 3 && config.has_performers(); ++i)
      more += config.side(i) * config.side(i) * (2 * e * m + m);
    expect_sizes<T2t>(config, parameters, products + more, sites);
  };
  check(published(1000), 21545550, 4783343104, 33);
  check(published(10), 21164400, 4782962944, 33);
  check(published(100), 21199050, 4782997504, 33);
  check(with_softmax(published(1000)), 21541070, 6088721920, 33);
  check(sized(32, 10, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}), 21090432, 1461270784, 33);
  check(sized(64, 200, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}), 21163582, 1461343744, 33);
  check(micro(64), 2074416, 152686720, 17);
  check(micro(32), 1887712, 144576640, 17);
  check(with_softmax(micro(32)), 1886496, 213258368, 17);
}

TEST(T2t, T2T_6_BeginsWithSinesOrthogonalFeaturesAndNormalWeights) {
  const T2t model(micro(64), 1, DType::f64);
  const NamedTensors p = model.values();
  for (const char* name : {"tokens_to_token.attention1.kqv.weight", "tokens_to_token.project.weight",
                           "blocks.5.attn.qkv.weight", "head.weight"})
    expect_normal(p.at(name), 0.02);
  EXPECT_EQ(spread(p.at("tokens_to_token.attention2.kqv.bias")).greatest, 0);
  const double* w = p.at("tokens_to_token.attention2.w").data<double>();
  for (int i = 0; i < 32; ++i)
    for (int k = 0; k < 32; ++k) {
      double product = 0;
      for (int c = 0; c < 64; ++c) product += w[i * 64 + c] * w[k * 64 + c];
      EXPECT_NEAR(product, i == k ? 32 : 0, 1e-12) << "rows " << i << " and " << k;
    }
  const double* positions = p.at("pos_embed").data<double>();
  EXPECT_EQ(positions[0], 0);
  EXPECT_EQ(positions[1], 1);
  EXPECT_EQ(positions[7 * 192 + 4], std::sin(7 * std::pow(10000, -4 / 192.0)));
  EXPECT_EQ(positions[64 * 192 + 191], std::cos(64 * std::pow(10000, -190 / 192.0)));
}

TEST(T2t, ImpossibleSizesNameTheKey) {
  const auto refused = [](auto change) { return refusal<T2t>(tiny_t2t(), change); };
  EXPECT_EQ(refused([](auto&) {}), "no error");
  EXPECT_EQ(refused([](auto& c) { c.kernels = {3, 3}; }), "t2t: kernels must have 3 integers in [1, 64], got [3, 3]");
  EXPECT_EQ(refused([](auto& c) { c.kernels[2] = 65; }),
            "t2t: kernels must have 3 integers in [1, 64], got [4, 3, 65]");
  EXPECT_EQ(refused([](auto& c) { c.strides[0] = 0; }), "t2t: strides must have 3 integers in [1, 64], got [0, 2, 1]");
  EXPECT_EQ(refused([](auto& c) { c.paddings[1] = -1; }),
            "t2t: paddings must have 3 integers in [0, 64], got [1, -1, 1]");
  EXPECT_EQ(refused([](auto& c) { c.paddings[1] = 3; }),
            "t2t: paddings must be below kernels = [4, 3, 3], got [1, 3, 1]");
  EXPECT_EQ(
      refused([](auto& c) { c.kernels[1] = 7, c.paddings[2] = 0; }),
      "t2t: image_size must be at least 18 for kernels [4, 7, 3], strides [2, 2, 1] and paddings [1, 1, 0], got 8");
  EXPECT_EQ(refused([](auto& c) { c.token_width = 5; }), "t2t: token_width must be even and in [2, 4096], got 5");
  EXPECT_EQ(refused([](auto& c) { c.token_width = 130, c.token_attention = "softmax"; }),
            "t2t: token_width must be at most 128 with token_attention = softmax, got 130");
  EXPECT_EQ(refused([](auto& c) { c.token_attention = "linear"; }),
            "t2t: token_attention must be one of performer, softmax, got \"linear\"");
  EXPECT_EQ(refused([](auto& c) { c.token_dropout = 1; }), "t2t: token_dropout must be in [0, 1), got 1");
  EXPECT_EQ(refused([](auto& c) { c.normalizer = "deepnorm"; }),
            "t2t: normalizer must support pre-norm, got deepnorm, which works only with post-norm");
  EXPECT_EQ(refused([](auto& c) { c.pre_norm = false; }),
            "t2t: pre_norm must be on; the published layers are pre-norm");
  EXPECT_EQ(refused([](auto& c) { c.weight_standardization = true; }),
            "t2t: weight_standardization must be off; token modules do not support it");
}

TEST(T2t, TheSmallestImageHasOneToken) {
  struct Unfolds {
    Values kernels, strides, paddings;
  };
  for (const Unfolds& u : {Unfolds{{7, 3, 3}, {4, 2, 2}, {2, 1, 1}},
                           {{3, 7, 3}, {2, 2, 1}, {1, 1, 0}},
                           {{1, 1, 1}, {1, 1, 1}, {0, 0, 0}}}) {
    T2tConfig config = sized(0, 1, u.kernels, u.strides, u.paddings);
    config.image_size = config.smallest_image();
    EXPECT_EQ(config.side(3), 1);
    EXPECT_NO_THROW(config.validate());
    --config.image_size;
    EXPECT_THROW(config.validate(), std::invalid_argument);
  }
}

// reference.py computes these logits in f64 with the published PyTorch modules, for the same parameters and images:
// element i of parameter k is 0.3 sin(1.7 k + 0.61 i), plus 1 for gains, and pixel i is sin(0.37 i).
TEST(T2t, T2T_1_T2T_2_T2T_3_T2T_4_T2T_5_AreThePublishedModel) {
  struct Known {
    const char* token_attention;
    std::vector<double> logits;
  };
  for (const Known& known :
       {Known{"performer",
              {-0.14230613280001037, 1.5291897030299122, 1.0068964324877638, -0.9983704203792673, -1.3749372754896425,
               -0.14151949857375828, 1.5316743772899322, 1.0069388213863277, -1.0008409513861007, -1.3758039685508066}},
        {"softmax",
         {-0.19002820538076265, 1.5365382456322978, 1.057070380491021, -0.98897819183619, -1.4219774627496686,
          -0.24425167508524898, 1.5391023066776708, 1.11214936109054, -0.9731648947936152, -1.471780263232212}}}) {
    SCOPED_TRACE(known.token_attention);
    const T2tConfig config = tiny_t2t(known.token_attention);
    T2t model(config, std::nullopt, DType::f64);
    const NamedTensors values = model.values();  // sorted by name
    int k = 0;
    for (const auto& [name, value] : values) {
      const bool gain = name.find("norm") != std::string::npos && name.ends_with("weight");
      for (std::int64_t i = 0; i < value.size(); ++i)
        value.data<double>()[i] = 0.3 * std::sin(1.7 * k + 0.61 * double(i)) + gain;
      ++k;
    }
    const Tensor images = Tensor::empty({2, 8, 8, 3}, DType::f64);
    for (std::int64_t i = 0; i < images.size(); ++i) images.data<double>()[i] = std::sin(0.37 * double(i));
    const Tensor got = inference_logits(model, {{"images", images}}, DType::f64);
    EXPECT_TRUE(close(got, Tensor::of({2, 5}, known.logits), 1e-12));
  }
}

TEST(T2t, TokenDropoutActsOnlyInTrainingAndInBothBranches) {
  T2tConfig config = tiny_t2t();
  config.pooling = "mean";
  const auto loss = [&](bool training, const char* zeroed) {
    T2t model(config, 1, DType::f64);
    randomize(model, 10);
    for (Parameter* p : model.parameters())
      if (p->name.find(zeroed) != std::string::npos) p->value.zero();
    return loss_of(model, images_of(config), training);
  };
  const char *const of_proj = ".mlp.2.", *const of_feed_forward = ".proj.";
  const double proj = loss(true, of_proj), feed_forward = loss(true, of_feed_forward), inference = loss(false, "none");
  config.token_dropout = 0.5;
  EXPECT_NE(loss(true, of_proj), proj);
  EXPECT_NE(loss(true, of_feed_forward), feed_forward);
  EXPECT_EQ(loss(false, "none"), inference);
}

// The attention weights of a token sum to d / (d + m eps), not to 1. If all tokens have the same value v, the result is
// therefore a = v d / (d + m eps). With short keys, a is almost v. With long keys, d is far below m eps, and a is
// almost 0.
TEST(T2t, T2T_5_EqualValuesPassUnlessKeysAreLong) {
  T2tConfig config = tiny_t2t("performer", "none");
  config.layers = 1;
  T2t model(config, 1, DType::f64);
  randomize(model, 10, 0.05);
  const NamedTensors p = model.values();
  const Tensor kqv = p.at("tokens_to_token.attention1.kqv.weight"), bias = p.at("tokens_to_token.attention1.kqv.bias");
  kqv.slice(8, 12).zero();  // v equals its bias at every token
  const auto results = [&](double key_bias) {
    for (std::int64_t c = 0; c < 4; ++c) bias.data<double>()[c] = key_bias;
    std::vector<double> a;
    Tape tape;
    tape.observe([&](const Node& node, const Tensor& y) {
      if (a.empty() && node.name() == std::string("divide_rows")) a = y.values<double>();
    });
    (void)model.forward(images_of(config), {.tape = tape, .dtype = DType::f64});
    return a;
  };
  const std::vector<double> near = results(0.5), far = results(20);
  ASSERT_EQ(near.size(), 3u * 16 * 4);
  for (std::size_t i = 0; i < near.size(); ++i) {
    const double v = bias.data<double>()[8 + i % 4];
    EXPECT_NEAR(near[i], v, 1e-6 * std::abs(v));  // m eps = 2e-8
    EXPECT_NEAR(far[i], 0, 1e-12);
  }
}

// w is 0, so each feature of a key of length l is e^(-l^2 / 2). In module 1, only the key of the first token of image 0
// is not 0. In module 2, all keys have length 10.
TEST(T2t, T2T_4_DiagnosticsAreOfTheLastTrainingPass) {
  T2t model(tiny_t2t("performer", "none"), std::nullopt, DType::f64);
  const NamedTensors p = model.values();
  p.at("tokens_to_token.attention1.kqv.weight").data<double>()[21] = 1;  // key channel 0 reads green at row 1, column 1
  p.at("tokens_to_token.attention2.kqv.bias").data<double>()[1] = 6;
  p.at("tokens_to_token.attention2.kqv.bias").data<double>()[3] = 8;
  const Tensor images = Tensor::zeros({2, 8, 8, 3}, DType::f64);
  images.data<double>()[1] = 5;
  const auto diagnostics = [&](bool training) {
    Tape tape;
    (void)model.forward({{"images", images}}, {.tape = tape, .dtype = DType::f64, .training = training});
    return model.diagnostics();
  };
  EXPECT_TRUE(diagnostics(/*training=*/false).empty());
  const double least = 15 + std::exp(-12.5), far = 4 * std::exp(-50);
  const std::map<std::string, double> want{{"1.mean_key_length", 5 / 32.},
                                           {"1.greatest_key_length", 5},
                                           {"1.least_denominator", least},
                                           {"1.median_denominator", 16},
                                           {"1.below_eps", 0},
                                           {"2.mean_key_length", 10},
                                           {"2.greatest_key_length", 10},
                                           {"2.least_denominator", far},
                                           {"2.median_denominator", far},
                                           {"2.below_eps", 1}};
  const auto got = diagnostics(/*training=*/true);
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want) {
    const auto found = got.find("tokens_to_token.attention" + name);
    ASSERT_NE(found, got.end()) << name;
    EXPECT_NEAR(found->second, value, 1e-14 * value) << name;
  }
}

TEST(T2t, EachSiteGoesIntoTheLayerThatReadsIt) {
  using Weights = std::vector<std::string>;
  for (const char* token_attention : {"performer", "softmax"}) {
    const bool performer = token_attention == std::string("performer");
    const auto sites = by_site(fold(*random_model<T2t>(tiny_t2t(token_attention, "un"))));
    const std::string module = "tokens_to_token.attention1.";
    EXPECT_EQ(sites.at(module + "norm1").into, Weights{module + (performer ? "kqv.weight" : "attn.qkv.weight")});
    EXPECT_EQ(sites.at(module + "norm2").into, Weights{module + (performer ? "mlp.0.weight" : "mlp.fc1.weight")});
    EXPECT_EQ(sites.at("blocks.1.norm1").into, Weights{"blocks.1.attn.qkv.weight"});
    EXPECT_EQ(sites.at("norm").into, Weights{"head.weight"});
  }
}

}  // namespace
}  // namespace foldgrad::testing
