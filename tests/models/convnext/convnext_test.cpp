// Tests ConvNeXt: sizes, names, error messages, gradients, and folding of its normalizers and of gamma.
#include "models/convnext/convnext.h"

#include "models/fold/model.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {
namespace {

// Returns a configuration with maps of 4 x 4 and 2 x 2 pixels.
ConvNextConfig tiny_convnext(const std::string& normalizer = "ln") {
  ConvNextConfig config;
  config.image_size = 8, config.classes = 5;
  config.channels = {4, 8}, config.depths = {1, 1};
  config.normalizer = normalizer;
  if (normalizer == "groupnorm" || normalizer == "pn") config.normalizer_options = {{"groups", "2"}};
  return config;
}

ConvNextConfig sized(std::int64_t patch, const std::vector<std::int64_t>& channels,
                     const std::vector<std::int64_t>& depths, std::int64_t classes) {
  ConvNextConfig config;
  config.image_size = patch == 4 ? 224 : 32, config.patch = patch, config.classes = classes;
  config.channels = channels, config.depths = depths;
  return config;
}

// The first number of parameters is published (ConvNeXt-T); the multiplications are counted by hand. Each gamma is also
// a normalizer site. dyt adds one parameter, alpha, at each of the other sites.
TEST(ConvNext, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  const auto check = [](ConvNextConfig config, std::int64_t parameters, std::int64_t products, std::size_t norms,
                        std::size_t gammas) {
    expect_sizes<ConvNext>(config, parameters, products, norms + gammas);
    config.normalizer = "dyt";
    EXPECT_EQ(ConvNext(config, std::nullopt).parameter_count(), parameters + std::int64_t(norms));
  };
  check(sized(4, {96, 192, 384, 768}, {3, 3, 9, 3}, 1000), 28589128, 4455531264, 23, 18);
  check(sized(2, {40, 80, 160, 320}, {2, 2, 6, 2}, 10), 3376290, 44288640, 17, 12);
  check(sized(2, {48, 96, 192}, {2, 2, 2}, 10), 908890, 32927616, 10, 6);
}

TEST(ConvNext, NamesAndShapesAreTimmsButForGamma) {
  ConvNextConfig config = tiny_convnext();
  config.depths = {1, 2};
  const Parameters block{{"conv_dw.weight", {8, 1, 7, 7}},
                         {"conv_dw.bias", {8}},
                         {"norm.weight", {8}},
                         {"norm.bias", {8}},
                         {"mlp.fc1.weight", {32, 8}},
                         {"mlp.fc1.bias", {32}},
                         {"mlp.fc2.weight", {8, 32}},
                         {"mlp.fc2.bias", {8}},
                         {"gamma.weight", {8}}};
  const Parameters all = parameters_of(ConvNext(config, 1));
  ASSERT_EQ(all.size(), 4u + 9u + 4u + 18u + 4u);
  const Parameters begin(all.begin(), all.begin() + 5), behind(all.begin() + 13, all.begin() + 17),
      end(all.end() - 4, all.end());
  EXPECT_EQ(begin, (Parameters{{"stem.0.weight", {4, 3, 2, 2}},
                               {"stem.0.bias", {4}},
                               {"stem.1.weight", {4}},
                               {"stem.1.bias", {4}},
                               {"stages.0.blocks.0.conv_dw.weight", {4, 1, 7, 7}}}));
  EXPECT_EQ(behind, (Parameters{{"stages.1.downsample.0.weight", {4}},
                                {"stages.1.downsample.0.bias", {4}},
                                {"stages.1.downsample.1.weight", {8, 4, 2, 2}},
                                {"stages.1.downsample.1.bias", {8}}}));
  for (std::size_t i = 0; i < block.size(); ++i) {
    EXPECT_EQ(all[26 + i].first, "stages.1.blocks.1." + block[i].first);
    EXPECT_EQ(all[26 + i].second, block[i].second);
  }
  EXPECT_EQ(
      end, (Parameters{
               {"head.norm.weight", {8}}, {"head.norm.bias", {8}}, {"head.fc.weight", {5, 8}}, {"head.fc.bias", {5}}}));
}

void set(Model& model, const std::string& name, std::int64_t index, double value) {
  model.values().at(name).data<double>()[index] = value;
}

// The model has no normalizers and two stages of one channel, with maps of 2 x 2 pixels and of one pixel. In the first
// block, the only depthwise weight that is not 0 reads the pixel to the right, which is padding for the second column.
// gelu(x) is x Phi(x), for example gelu(2) = 2 Phi(2).
TEST(ConvNext, CNX_1_CNX_2_CNX_3_WorkedByHand) {
  ConvNextConfig config = tiny_convnext("none");
  config.image_size = 2, config.patch = 1, config.classes = 1, config.channels = {1, 1};
  ConvNext model(config, std::nullopt, DType::f64);
  set(model, "stem.0.weight", 0, 1);  // reads red
  set(model, "stem.0.bias", 0, 1);
  set(model, "stages.0.blocks.0.conv_dw.weight", 3 * 7 + 4, 1);
  set(model, "stages.0.blocks.0.mlp.fc1.weight", 2, 1);
  set(model, "stages.0.blocks.0.mlp.fc2.weight", 2, 10);
  set(model, "stages.0.blocks.0.mlp.fc2.bias", 0, 0.5);
  set(model, "stages.0.blocks.0.gamma.weight", 0, 2);
  for (std::int64_t i = 0; i < 4; ++i) set(model, "stages.1.downsample.1.weight", i, std::pow(10, double(i)));
  set(model, "stages.1.downsample.1.bias", 0, 3);
  set(model, "head.fc.weight", 0, 1);
  const Tensor images = Tensor::zeros({1, 2, 2, 3}, DType::f64);
  for (std::int64_t pixel = 0; pixel < 4; ++pixel) images.data<double>()[3 * pixel] = double(pixel);
  // The stem computes the map 1 2 / 3 4. The branch adds 2 (10 gelu(right) + 0.5), where the right neighbours are 2 0 /
  // 4 0.
  const double gelu2 = 2 * 0.97724986805182079, gelu4 = 4 * 0.99996832875816688;
  const double x[] = {1 + 2 * (10 * gelu2 + 0.5), 2 + 1, 3 + 2 * (10 * gelu4 + 0.5), 4 + 1};
  const Tensor y = inference_logits(model, {{"images", images}}, DType::f64);
  EXPECT_NEAR(y.item(), x[0] + 10 * x[1] + 100 * x[2] + 1000 * x[3] + 3, 1e-9);
}

TEST(ConvNext, ImpossibleSizesNameTheKey) {
  const auto refused = [](auto change) { return refusal<ConvNext>(tiny_convnext(), change); };
  EXPECT_EQ(refused([](auto& c) { c.channels = {}; }),
            "convnext: channels must have a positive number for each stage, got []");
  EXPECT_EQ(refused([](auto& c) { c.depths.push_back(3); }),
            "convnext: depths must have a positive number for each of the 2 stages in channels, got [1, 1, 3]");
  EXPECT_EQ(refused([](auto& c) { c.depths[1] = 0; }),
            "convnext: depths must have a positive number for each of the 2 stages in channels, got [1, 0]");
  EXPECT_EQ(refused([](auto& c) { c.patch = 0; }), "convnext: patch must be at least 1, got 0");
  EXPECT_EQ(refused([](auto& c) { c.image_size = 10; }),
            "convnext: image_size must be a multiple of patch * 2^(stages - 1) = 4, got 10");
  EXPECT_EQ(refused([](auto& c) { c.normalizer = "deepnorm"; }),
            "convnext: normalizer must support pre-norm, got deepnorm, which works only with post-norm");
}

TEST(ConvNext, Gradients) {
  for (const char* normalizer : {"ln", "dyt"}) {
    SCOPED_TRACE(normalizer);
    ConvNextConfig config = tiny_convnext(normalizer);
    config.drop_path = 0.4;
    ConvNext model(config, 1, DType::f64);
    randomize(model, 10);
    check_gradients(model, images_of(config));
  }
}

TEST(ConvNext, TrainsInEveryPrecision) {
  for (const char* normalizer : {"ln", "un", "bn", "none"}) {
    SCOPED_TRACE(normalizer);
    const ConvNextConfig config = tiny_convnext(normalizer);
    check_one_step([&](DType dtype) { return std::make_unique<ConvNext>(config, 1, dtype); }, images_of(config));
  }
}

TEST(ConvNext, DropPathActsOnlyInTraining) {
  ConvNextConfig config = tiny_convnext();
  const auto loss = [&](bool training) {
    ConvNext model(config, 1, DType::f64);
    randomize(model, 10);
    return loss_of(model, images_of(config), training);
  };
  const double none = loss(true), inference = loss(false);
  config.drop_path = 0.5;
  EXPECT_NE(loss(true), none);
  EXPECT_EQ(loss(false), inference);
}

using Outcome = SiteReport::Outcome;

// gamma and offline normalizers fold completely. In f64, each sum has a rounding error of about 1e-16.
TEST(ConvNext, FoldsToTheSameLogitsWithEveryNormalizer) {
  for (const std::string& normalizer : normalizer_names()) {
    if (normalizer == "deepnorm") continue;
    SCOPED_TRACE(normalizer);
    const ConvNextConfig config = tiny_convnext(normalizer);
    const auto model = random_model<ConvNext>(config);
    const NamedTensors inputs = images_of(config);
    const Tensor want = inference_logits(*model, inputs, DType::f64);
    const FoldedModel folded = fold(*model);
    EXPECT_LE(difference(inference_logits(*folded.model, inputs, DType::f64), want).relative, 1e-12);
    const bool offline = normalizer_info(normalizer).offline();
    for (const SiteReport& report : folded.reports) {
      const bool whole = offline || report.site.ends_with("gamma");
      EXPECT_TRUE(!whole || report.outcome == Outcome::folded) << report.site;
    }
    for (const auto& [site, left] : dynamic_cast<ConvNext&>(*folded.model).config().normalizer_at) {
      EXPECT_EQ(left, "none") << site;
      EXPECT_TRUE(site.ends_with(".gamma")) << site;
    }
    for (const auto& [name, value] : folded.model->values()) EXPECT_FALSE(name.ends_with("gamma.weight")) << name;
    for (const auto& [site, off] : fold_differences(*model, folded, inputs, DType::f64).sites)
      EXPECT_LE(off.relative, 1e-12) << site;
  }
}

TEST(ConvNext, EachSiteGoesIntoItsLayer) {
  const auto sites = by_site(fold(*random_model<ConvNext>(tiny_convnext("un"))));
  using Weights = std::vector<std::string>;
  EXPECT_EQ(sites.at("stem.1").into, Weights{"stem.0.weight"});
  EXPECT_EQ(sites.at("stages.0.blocks.0.norm").into, Weights{"stages.0.blocks.0.mlp.fc1.weight"});
  EXPECT_EQ(sites.at("stages.0.blocks.0.gamma").into, Weights{"stages.0.blocks.0.mlp.fc2.weight"});
  EXPECT_EQ(sites.at("stages.1.downsample.0").into, Weights{"stages.1.downsample.1.weight"});
  EXPECT_EQ(sites.at("head.norm").into, Weights{"head.fc.weight"});
}

TEST(ConvNext, FoldingAFoldedModelChangesNothing) {
  const FoldedModel once = fold(*random_model<ConvNext>(tiny_convnext("bn"))), twice = fold(*once.model);
  EXPECT_EQ(dynamic_cast<ConvNext&>(*twice.model).config(), dynamic_cast<ConvNext&>(*once.model).config());
  for (const auto& [name, value] : once.model->values())
    EXPECT_TRUE(identical(twice.model->values().at(name), value)) << name;
}

}  // namespace
}  // namespace foldgrad::testing
