// Tests the construction of a Swin Transformer: the names, sizes and initial values of its parameters, the error
// messages for impossible configurations, and the layer into which each of Swin-T's 29 sites folds.
#include <algorithm>

#include "models/fold/model.h"
#include "tests/models/spread.h"
#include "tests/models/swin/tiny_swin.h"

namespace foldgrad::testing {
namespace {

SwinConfig config_of(const std::string& name, std::int64_t image_size, std::int64_t patch, std::int64_t window,
                     std::int64_t classes) {
  SwinConfig config;
  config.image_size = image_size, config.patch = patch, config.window = window, config.classes = classes;
  if (name != "T") config.width = 48, config.ffn_width = 192;
  if (name == "micro") config.depths = {2, 2, 2, 2};
  if (name == "nano") config.depths = {2, 2, 2};
  return config;
}

// According to the authors' README, the first model has 28.3 million parameters and 4.5 billion multiplications. We
// count the multiplications by hand, for width d and a map of H x H tokens in windows of M x M: 12 d^2 H^2 + 2 H^2 M^2
// d for each layer, 8 d^2 (H / 2)^2 for each merging, 3 patch^2 d H^2 for the patches, and those of the head.
TEST(SwinSetup, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  expect_sizes<Swin>(config_of("T", 224, 4, 7, 1000), 28288354, 4490566656, 29);
  expect_sizes<Swin>(config_of("T", 32, 2, 4, 10), 27505108, 357785088, 29);
  expect_sizes<Swin>(config_of("T", 32, 1, 4, 10), 27506164, 1430822400, 29);
  expect_sizes<Swin>(config_of("T", 64, 2, 8, 200), 27668978, 1474320384, 29);
  expect_sizes<Swin>(config_of("T", 64, 4, 4, 200), 27654674, 358815744, 29);
  expect_sizes<Swin>(config_of("micro", 32, 2, 4, 10), 5116468, 61714176, 21);
  expect_sizes<Swin>(config_of("nano", 32, 2, 4, 10), 1268356, 46352256, 16);
}

TEST(SwinSetup, MapsWindowsAndShifts) {
  const auto stages = [](const SwinConfig& config) {
    std::string text;
    for (std::int64_t s = 0; s < config.stages(); ++s)
      text += fmt::format("{}/{}/{} ", config.side_of(s), config.window_of(s), config.shift_of(s));
    return text;
  };
  EXPECT_EQ(stages(config_of("T", 224, 4, 7, 10)), "56/7/3 28/7/3 14/7/3 7/7/0 ");
  EXPECT_EQ(stages(config_of("T", 32, 2, 4, 10)), "16/4/2 8/4/2 4/4/0 2/2/0 ");
  EXPECT_EQ(stages(config_of("T", 64, 2, 8, 10)), "32/8/4 16/8/4 8/8/0 4/4/0 ");
}

TEST(SwinSetup, NamesAndShapesAreTheAuthors) {
  SwinConfig config = tiny_swin();
  config.depths = {1, 1};
  const Parameters want{{"patch_embed.proj.weight", {8, 3, 2, 2}},
                        {"patch_embed.proj.bias", {8}},
                        {"patch_embed.norm.weight", {8}},
                        {"patch_embed.norm.bias", {8}},
                        {"layers.0.blocks.0.attn.qkv.weight", {24, 8}},
                        {"layers.0.blocks.0.attn.qkv.bias", {24}},
                        {"layers.0.blocks.0.attn.proj.weight", {8, 8}},
                        {"layers.0.blocks.0.attn.proj.bias", {8}},
                        {"layers.0.blocks.0.norm1.weight", {8}},
                        {"layers.0.blocks.0.norm1.bias", {8}},
                        {"layers.0.blocks.0.mlp.fc1.weight", {12, 8}},
                        {"layers.0.blocks.0.mlp.fc1.bias", {12}},
                        {"layers.0.blocks.0.mlp.fc2.weight", {8, 12}},
                        {"layers.0.blocks.0.mlp.fc2.bias", {8}},
                        {"layers.0.blocks.0.norm2.weight", {8}},
                        {"layers.0.blocks.0.norm2.bias", {8}},
                        {"layers.0.blocks.0.attn.relative_position_bias_table", {9, 2}},
                        {"layers.0.downsample.reduction.weight", {16, 32}},
                        {"layers.0.downsample.norm.weight", {32}},
                        {"layers.0.downsample.norm.bias", {32}}};
  Parameters got = parameters_of(Swin(config, 1));
  got.resize(want.size());
  EXPECT_EQ(got, want);
  const NamedTensors values = Swin(config, 1).values();
  EXPECT_EQ(values.at("layers.1.blocks.0.mlp.fc1.weight").shape(), (Shape{24, 16}));
  EXPECT_EQ(values.at("layers.1.blocks.0.attn.relative_position_bias_table").shape(), (Shape{9, 4}));
  EXPECT_EQ(values.at("norm.weight").shape(), Shape{16});
  EXPECT_EQ(values.at("head.weight").shape(), (Shape{5, 16}));
  EXPECT_FALSE(values.count("layers.1.downsample.reduction.weight"));
}

TEST(SwinSetup, BeginsWithSmallNormalWeightsAndPatchesAsPyTorchs) {
  const SwinConfig config = config_of("nano", 32, 4, 4, 100);
  const NamedTensors p = Swin(config, 1).values();
  expect_uniform(p.at("patch_embed.proj.weight"), 1 / std::sqrt(48.0));
  EXPECT_GT(spread(p.at("patch_embed.proj.bias")).greatest, 0.8 / std::sqrt(48.0));
  for (const char* name :
       {"layers.0.blocks.0.attn.qkv.weight", "layers.1.blocks.1.attn.proj.weight", "layers.0.blocks.1.mlp.fc1.weight",
        "layers.2.blocks.0.mlp.fc2.weight", "layers.0.downsample.reduction.weight", "head.weight"})
    expect_normal(p.at(name), 0.02);
  EXPECT_NEAR(spread(p.at("layers.1.blocks.1.attn.relative_position_bias_table")).deviation, 0.02, 0.004);
  EXPECT_EQ(spread(p.at("layers.0.blocks.0.attn.qkv.bias")).greatest, 0);
  EXPECT_NEAR(spread(p.at("layers.0.downsample.norm.weight")).mean, 1, 1e-12);
}

TEST(SwinSetup, DropoutDropsPatches) {
  SwinConfig config = tiny_swin("none");
  config.dropout = 0.5;
  Swin model(config, 1, DType::f64);
  std::vector<double> patches;
  Tape tape;
  tape.observe([&](const Node& node, const Tensor& y) {
    if (node.name() == std::string("dropout")) patches = y.values<double>();
  });
  (void)model.forward(images_of(config, 4), {.tape = tape, .dtype = DType::f64, .training = true, .seed = 1});
  ASSERT_EQ(patches.size(), 512u);
  // Each element is dropped with probability 1/2. The tolerance is five standard deviations, 5 * 11.3.
  EXPECT_NEAR(double(std::ranges::count(patches, 0.0)), 256, 57);
}

TEST(SwinSetup, TablesOfBiasesAreNotDecayed) {
  Swin model(tiny_swin(), 1);
  const std::vector<Parameter*> vectors = model.vectors();
  EXPECT_TRUE(std::ranges::any_of(
      vectors, [](const Parameter* p) { return p->name == "layers.0.blocks.1.attn.relative_position_bias_table"; }));
}

TEST(SwinSetup, RefusesWhatCannotBe) {
  const auto error = [](auto change) { return refusal<Swin>(tiny_swin(), change); };
  EXPECT_EQ(error([](auto&) {}), "no error");
  EXPECT_EQ(error([](auto& c) { c.depths = {}; }), "swin: depths must have 1 to 8 numbers, each at least 1, got []");
  EXPECT_EQ(error([](auto& c) { c.depths[1] = 0; }),
            "swin: depths must have 1 to 8 numbers, each at least 1, got [2, 0]");
  EXPECT_EQ(error([](auto& c) { c.heads = 3; }), "swin: heads must divide width = 8, got 3");
  EXPECT_EQ(error([](auto& c) { c.window = 0; }), "swin: window must be at least 1, got 0");
  EXPECT_EQ(
      error([](auto& c) { c.image_size = 24, c.window = 5; }),
      "swin: window must divide the size of every feature map larger than the window; 1, 2, 3, 6, 12 would fit, got 5");
  EXPECT_EQ(error([](auto& c) { c.image_size = 10; }),
            "swin: image_size must be a multiple of patch * 2^(stages - 1) = 4, got 10");
  EXPECT_EQ(error([](auto& c) { c.image_size = 1028; }),
            "swin: image_size must be at most 512 patches of size 2, got 1028");
  EXPECT_EQ(error([](auto& c) { c.pre_norm = false; }), "swin: pre_norm must be on");
  EXPECT_EQ(error([](auto& c) { c.weight_standardization = true; }), "swin: weight_standardization must be off");
  EXPECT_EQ(error([](auto& c) { c.normalizer = "deepnorm"; }),
            "swin: normalizer must support pre-norm, got deepnorm, which works only with post-norm");
  EXPECT_EQ(error([](auto& c) { c.normalizer_at["layers.1.downsample.norm"] = "none"; }),
            "swin: normalizer_at: there is no site \"layers.1.downsample.norm\"; did you mean "
            "\"layers.0.downsample.norm\"?");
}

// The model is narrower than Swin-T but has the same 29 sites. All of them fold completely.
TEST(SwinFolding, EachOfThe29SitesGoesIntoTheLayerThatReadsIt) {
  SwinConfig config = config_of("T", 16, 1, 2, 10);
  config.width = 6, config.ffn_width = 12;
  config.normalizer = "un";
  const auto model = random_model<Swin>(config);
  const FoldedModel folded = fold(*model);
  const auto sites = by_site(folded);
  EXPECT_EQ(sites.size(), 29u);
  for (const auto& [name, report] : sites) {
    EXPECT_EQ(report.outcome, SiteReport::Outcome::folded) << name;
    ASSERT_EQ(report.into.size(), 1u) << name;
  }
  EXPECT_EQ(sites.at("patch_embed.norm").into[0], "patch_embed.proj.weight");
  EXPECT_EQ(sites.at("layers.2.blocks.5.norm1").into[0], "layers.2.blocks.5.attn.qkv.weight");
  EXPECT_EQ(sites.at("layers.3.blocks.1.norm2").into[0], "layers.3.blocks.1.mlp.fc1.weight");
  EXPECT_EQ(sites.at("layers.1.downsample.norm").into[0], "layers.1.downsample.reduction.weight");
  EXPECT_EQ(sites.at("norm").into[0], "head.weight");
  EXPECT_TRUE(folded.model->values().count("layers.1.downsample.reduction.bias"));
  EXPECT_EQ(dynamic_cast<Swin&>(*folded.model).config().normalizer, "none");
  EXPECT_LE(folding_error(*model, images_of(config), {}).relative, 1e-12);
}

}  // namespace
}  // namespace foldgrad::testing
