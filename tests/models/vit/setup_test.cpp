// Tests the construction of a vision Transformer: the names, sizes and initial values of its parameters, and the error
// messages for impossible configurations.
#include "tests/models/spread.h"
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

VitConfig vit_s() {
  VitConfig config;
  config.classes = 10;
  return config;
}
VitConfig with_mean(std::int64_t width, std::int64_t ffn_width, std::int64_t heads, std::int64_t layers) {
  VitConfig config = vit_s();
  config.width = width, config.ffn_width = ffn_width, config.heads = heads, config.layers = layers;
  config.pooling = "mean";
  return config;
}

// We count the multiplications by hand, for width d, T tokens and m = ffn_width: T (4 d^2 + 2 d m) + 2 T^2 d for each
// layer, 64 * 48 d for the patches, and 10 d for the head.
TEST(VitSetup, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  const auto without_norms = [](VitConfig config) {
    config.normalizer = "none";
    return Vit(config, std::nullopt).parameter_count();
  };
  const VitConfig small = with_mean(128, 256, 2, 4), medium = with_mean(192, 384, 3, 6);
  expect_sizes<Vit>(vit_s(), 21328522, 1420309248, 25);
  expect_sizes<Vit>(small, 544394, 38143232, 9);
  expect_sizes<Vit>(medium, 1802698, 123275136, 13);
  EXPECT_EQ(without_norms(vit_s()), 21309322);
  EXPECT_EQ(without_norms(small), 542090);
  EXPECT_EQ(without_norms(medium), 1797706);
}

TEST(VitSetup, NamesAndShapesAreTimms) {
  VitConfig config = tiny_vit();
  config.qkv_bias = true, config.layers = 1;
  Vit model(config, 1);
  const Parameters want{{"patch_embed.proj.weight", {8, 3, 2, 2}},
                        {"patch_embed.proj.bias", {8}},
                        {"cls_token", {1, 1, 8}},
                        {"pos_embed", {1, 5, 8}},
                        {"blocks.0.attn.qkv.weight", {24, 8}},
                        {"blocks.0.attn.qkv.bias", {24}},
                        {"blocks.0.attn.proj.weight", {8, 8}},
                        {"blocks.0.attn.proj.bias", {8}},
                        {"blocks.0.norm1.weight", {8}},
                        {"blocks.0.norm1.bias", {8}},
                        {"blocks.0.mlp.fc1.weight", {12, 8}},
                        {"blocks.0.mlp.fc1.bias", {12}},
                        {"blocks.0.mlp.fc2.weight", {8, 12}},
                        {"blocks.0.mlp.fc2.bias", {8}},
                        {"blocks.0.norm2.weight", {8}},
                        {"blocks.0.norm2.bias", {8}},
                        {"norm.weight", {8}},
                        {"norm.bias", {8}},
                        {"head.weight", {5, 8}},
                        {"head.bias", {5}}};
  EXPECT_EQ(parameters_of(model), want);
  config.pooling = "mean", config.fc_norm = true;
  EXPECT_TRUE(Vit(config, 1).values().count("fc_norm.weight"));
  config.qkv_bias = config.pre_norm = config.fc_norm = false;
  Vit other(config, 1);
  const NamedTensors values = other.values();
  for (const char* name : {"cls_token", "blocks.0.attn.qkv.bias", "norm.weight"}) EXPECT_FALSE(values.count(name));
  EXPECT_EQ(values.at("pos_embed").shape(), (Shape{1, 4, 8}));
  EXPECT_EQ(other.output_parameters().at(0)->name, "head.weight");
}

struct Begun {
  NamedTensors values;
  const Tensor& operator()(const char* name) const { return values.at(name); }
  Tensor rows(const char* name, std::int64_t part, std::int64_t width) const {
    return values.at(name).slice(part * width, (part + 1) * width);
  }
};
Begun begun(const std::string& initialization, const std::string& scope = "v_out_ffn",
            const std::string& positions = "random") {
  VitConfig config = vit_s();
  config.width = 96, config.ffn_width = 192, config.heads = 2, config.layers = 2, config.qkv_bias = true;
  config.initialization = initialization, config.tfixup_scope = scope, config.positions = positions;
  return {Vit(config, 1).values()};
}

TEST(VitSetup, TimmBeginsWithSmallNormalWeights) {
  const Begun p = begun("timm");
  expect_uniform(p("patch_embed.proj.weight"), 1 / std::sqrt(48.0));
  expect_uniform(p("patch_embed.proj.bias"), 1 / std::sqrt(48.0));
  for (const char* name : {"pos_embed", "blocks.0.attn.qkv.weight", "blocks.1.attn.proj.weight",
                           "blocks.0.mlp.fc1.weight", "blocks.1.mlp.fc2.weight", "head.weight"})
    expect_normal(p(name), 0.02);
  EXPECT_NEAR(spread(p("cls_token")).deviation, 1e-6, 3e-7);
  for (const char* name : {"blocks.0.attn.qkv.bias", "blocks.0.mlp.fc1.bias", "head.bias"})
    EXPECT_EQ(spread(p(name)).greatest, 0) << name;
}

TEST(VitSetup, PyTorchBeginsWithUniformWeightsAndBiases) {
  const Begun p = begun("pytorch");
  expect_uniform(p("patch_embed.proj.weight"), 1 / std::sqrt(48.0));
  expect_normal(p("pos_embed"), 1);
  EXPECT_NEAR(spread(p("cls_token")).deviation, 1, 0.3);
  for (const char* name : {"blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "blocks.1.attn.proj.bias",
                           "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc1.bias", "head.weight"})
    expect_uniform(p(name), 1 / std::sqrt(96.0));
  expect_uniform(p("blocks.1.mlp.fc2.weight"), 1 / std::sqrt(192.0));
}

TEST(VitSetup, TFixupScalesByTheNumberOfLayers) {
  const double f = 0.67 * std::pow(2, -0.25), e = std::pow(18, -0.25), X = std::sqrt(6.0 / 192);
  for (const char* scope : {"v_out_ffn", "all"}) {
    const Begun p = begun("tfixup", scope);
    const double query = std::string(scope) == "all" ? f * X : X / std::sqrt(2);
    expect_uniform(p("patch_embed.proj.weight"), e * std::sqrt(6.0 / (48 + 96)));
    EXPECT_EQ(spread(p("patch_embed.proj.bias")).greatest, 0);
    expect_normal(p("pos_embed"), e / std::sqrt(96.0));
    expect_uniform(p.rows("blocks.0.attn.qkv.weight", 0, 96), query);
    expect_uniform(p.rows("blocks.0.attn.qkv.weight", 1, 96), query);
    expect_uniform(p.rows("blocks.0.attn.qkv.weight", 2, 96), f * X);
    expect_uniform(p("blocks.1.attn.proj.weight"), f * X);
    expect_uniform(p("blocks.1.mlp.fc2.weight"), f * std::sqrt(6.0 / 288));
    expect_uniform(p("head.weight"), std::sqrt(6.0 / 106));
  }
}

// The class token comes first, then 8 x 8 image tokens. Columns and rows are encoded with 24 frequencies each.
TEST(VitSetup, VIT_3_SinusoidalPositionsTellColumnsAndRows) {
  const Tensor positions = begun("pytorch", "v_out_ffn", "sinusoidal")("pos_embed").to(DType::f64);
  ASSERT_EQ(positions.shape(), (Shape{1, 65, 96}));
  const auto at = [&](int token, int channel) { return positions.data<double>()[token * 96 + channel]; };
  for (int channel = 0; channel < 96; ++channel) EXPECT_EQ(at(0, channel), 0);
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column)
      for (int i = 0; i < 24; ++i) {
        const double f = std::pow(10000, -i / 23.0);
        const int token = 1 + 8 * row + column;
        const double expected[] = {std::sin((column + 2) * f), std::cos((column + 2) * f), std::sin((row + 2) * f),
                                   std::cos((row + 2) * f)};
        for (int part = 0; part < 4; ++part)
          EXPECT_NEAR(at(token, 24 * part + i), expected[part], 1e-6)
              << "token " << token << ", channel " << 24 * part + i;  // the positions are f32
      }
}

TEST(VitSetup, DeepNormScalesValuesOutputsAndFeedForward) {
  VitConfig config = tiny_vit("deepnorm", /*pre_norm=*/false);
  config.width = 96, config.ffn_width = 192, config.layers = 8;
  const NamedTensors p = Vit(config, 1).values();
  const double gain = std::pow(64, -0.25);  // (8 N)^(-1/4) for an encoder of N = 8 layers without a decoder
  const Tensor& qkv = p.at("blocks.3.attn.qkv.weight");
  expect_normal(qkv.slice(0, 192), 0.02);
  for (const Tensor& t : {qkv.slice(192, 288), p.at("blocks.7.attn.proj.weight"), p.at("blocks.0.mlp.fc1.weight")})
    expect_normal(t, gain * 0.02);
}

TEST(VitSetup, RefusesWhatCannotBe) {
  const auto error = [](auto change) { return refusal<Vit>(tiny_vit(), change); };
  EXPECT_EQ(error([](auto&) {}), "no error");
  EXPECT_EQ(error([](auto& c) { c.patch = 3; }), "vit: patch must divide image_size = 4, got 3");
  EXPECT_EQ(error([](auto& c) { c.classes = 0; }), "vit: classes must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.layers = 0; }), "vit: layers must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.heads = 3; }), "vit: heads must divide width = 8, got 3");
  EXPECT_EQ(error([](auto& c) { c.pooling = "max"; }), "vit: pooling must be one of cls, mean, sequence, got \"max\"");
  EXPECT_EQ(error([](auto& c) { c.initialization = "xavier"; }),
            "vit: initialization must be one of timm, pytorch, tfixup, got \"xavier\"");
  EXPECT_EQ(error([](auto& c) { c.normalizer_at["blocks.0.norm3"] = "none"; }),
            "vit: normalizer_at: there is no site \"blocks.0.norm3\"; did you mean \"blocks.0.norm1\"?");
  EXPECT_EQ(error([](auto& c) { c.pre_norm = false, c.fc_norm = true; }),
            "vit: fc_norm must be off; with post-norm there is no last normalizer");
  EXPECT_EQ(error([](auto& c) { c.class_names.resize(2); }), "vit: class_names must have 5 names or none, got 2");
  EXPECT_EQ(error([](auto& c) { c.pixels.std[1] = 0; }), "vit: image_std must be above 0 and finite, got 0");
  EXPECT_EQ(error([](auto& c) { c.pixels.mean[2] = std::nan(""); }), "vit: image_mean must be finite, got nan");
  Vit model(tiny_vit(), 1);
  Tape tape;
  const auto forward = [&](const NamedTensors& inputs) {
    return message_of([&] { model.forward(inputs, {.tape = tape, .dtype = DType::f32}); });
  };
  EXPECT_EQ(forward({{"images", Tensor::zeros({2, 3, 4, 4}, DType::f32)}}),
            "vit: images must be [B, 4, 4, 3], got [2, 3, 4, 4]");
  EXPECT_EQ(forward({}), "vit: the input \"images\" is missing");
}

}  // namespace
}  // namespace foldgrad::testing
