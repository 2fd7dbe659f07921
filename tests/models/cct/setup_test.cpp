// Tests the construction of a Compact Convolutional Transformer: the names, sizes and initial values of its parameters,
// and the error messages for impossible configurations.
#include "tests/models/images/kinds.h"
#include "tests/models/spread.h"

namespace foldgrad::testing {
namespace {

CctConfig cct4() {
  CctConfig config;
  config.classes = 10;
  return config;
}
CctConfig cct2() {
  CctConfig config = cct4();
  config.layers = 2;
  return config;
}
CctConfig cct7() {
  CctConfig config = cct4();
  config.convs = 1, config.width = 256, config.ffn_width = 512, config.heads = 4, config.layers = 7;
  return config;
}
CctConfig hybrid() {
  CctConfig config = cct4();
  config.stem = "hybrid", config.convs = 3, config.ffn_width = 256;
  return config;
}

// We count the multiplications by hand, for width d, T tokens and m = ffn_width: in addition to the convolutions, T (4
// d^2 + 2 d m) + 2 T^2 d for each layer, 2 T d for the pooling and 10 d for the head. According to the authors' README,
// the first three models have 0.284, 0.482 and 3.760 million parameters.
TEST(CctSetup, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  const auto check = [](CctConfig config, std::int64_t parameters, std::int64_t tokens, std::int64_t products,
                        std::size_t sites) {
    EXPECT_EQ(config.tokens(), tokens);
    for (const char* block : {"pre", "cct"}) {
      config.block = block;
      expect_sizes<Cct>(config, parameters, products, sites);
    }
  };
  const std::int64_t convs = 1024 * 64 * 27 + 256 * 128 * 576, layer = 64 * 6 * 16384 + 2 * 64 * 64 * 128;
  check(cct2(), 283723, 64, convs + 2 * layer + 2 * 64 * 128 + 1280, 5);
  check(cct4(), 482123, 64, convs + 4 * layer + 2 * 64 * 128 + 1280, 9);
  check(cct7(), 3760139, 256, 1024 * 256 * 27 + 7 * (256 * 524288 + 2 * 65536 * 256) + 2 * 65536 + 2560, 15);
  check(hybrid(), 631723, 64,
        1024 * 32 * 27 + 1024 * 64 * 288 + 256 * 128 * 576 + 4 * (64 * 131072 + 2 * 4096 * 128) + 2 * 64 * 128 + 1280,
        12);
}

TEST(CctSetup, NamesAndShapesAreTheAuthors) {
  CctConfig config = tiny_cct();
  config.layers = 1;
  Cct model(config, 1);
  const Parameters want{{"tokenizer.conv_layers.0.0.weight", {8, 3, 3, 3}},
                        {"classifier.positional_emb", {1, 4, 8}},
                        {"classifier.blocks.0.self_attn.qkv.weight", {24, 8}},
                        {"classifier.blocks.0.self_attn.proj.weight", {8, 8}},
                        {"classifier.blocks.0.self_attn.proj.bias", {8}},
                        {"classifier.blocks.0.pre_norm.weight", {8}},
                        {"classifier.blocks.0.pre_norm.bias", {8}},
                        {"classifier.blocks.0.linear1.weight", {12, 8}},
                        {"classifier.blocks.0.linear1.bias", {12}},
                        {"classifier.blocks.0.linear2.weight", {8, 12}},
                        {"classifier.blocks.0.linear2.bias", {8}},
                        {"classifier.blocks.0.norm1.weight", {8}},
                        {"classifier.blocks.0.norm1.bias", {8}},
                        {"classifier.norm.weight", {8}},
                        {"classifier.norm.bias", {8}},
                        {"classifier.attention_pool.weight", {1, 8}},
                        {"classifier.attention_pool.bias", {1}},
                        {"classifier.fc.weight", {5, 8}},
                        {"classifier.fc.bias", {5}}};
  EXPECT_EQ(parameters_of(model), want);
  config.pooling = "cls", config.convs = 2, config.image_size = 8;
  const NamedTensors values = Cct(config, 1).values();
  EXPECT_EQ(values.at("tokenizer.conv_layers.0.0.weight").shape(), (Shape{64, 3, 3, 3}));
  EXPECT_EQ(values.at("tokenizer.conv_layers.1.0.weight").shape(), (Shape{8, 64, 3, 3}));
  EXPECT_EQ(values.at("classifier.class_emb").shape(), (Shape{1, 1, 8}));
  EXPECT_EQ(values.at("classifier.positional_emb").shape(), (Shape{1, 5, 8}));
  EXPECT_FALSE(values.count("classifier.attention_pool.weight"));
  const NamedTensors hybrid = Cct(tiny_cct("ln", "hybrid"), 1).values();
  EXPECT_EQ(hybrid.at("tokenizer.conv_layers.0.0.weight").shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(hybrid.at("tokenizer.conv_layers.0.norm.weight").shape(), (Shape{4}));
  EXPECT_EQ(hybrid.at("tokenizer.conv_layers.1.norm.bias").shape(), (Shape{8}));
  EXPECT_FALSE(hybrid.count("tokenizer.conv_layers.0.0.bias"));
}

// Map sizes follow PyTorch's Conv2d (stride max(1, kernel / 2 - 1), padding kernel / 2) and MaxPool2d.
TEST(CctSetup, TokensOfOtherKernelsAndSizes) {
  const auto tokens = [](std::int64_t image, std::int64_t kernel, std::int64_t convs, const char* stem) {
    CctConfig config = cct4();
    config.image_size = image, config.kernel = kernel, config.convs = convs, config.stem = stem;
    const Cct model(config, std::nullopt);
    EXPECT_EQ(model.values().at("classifier.positional_emb").shape()[1], config.tokens());
    return config.tokens();
  };
  EXPECT_EQ(tokens(224, 7, 2, "cct"), 196);  // cct_14_7x2_224
  EXPECT_EQ(tokens(33, 5, 1, "cct"), 17 * 17);
  EXPECT_EQ(tokens(33, 3, 2, "hybrid"), 16 * 16);
  EXPECT_EQ(tokens(35, 3, 3, "hybrid"), 8 * 8);
  CctConfig odd = tiny_cct("none");
  odd.image_size = 13, odd.kernel = 7, odd.convs = 2;
  Cct model(odd, 1);
  EXPECT_EQ(inference_logits(model, images_of(odd), DType::f64).shape(), (Shape{3, 5}));
}

TEST(CctSetup, TheAuthorsBeginWithNormalWeights) {
  const NamedTensors p = Cct(cct4(), 1).values();
  expect_normal(p.at("tokenizer.conv_layers.0.0.weight"), std::sqrt(2.0 / 27));
  expect_normal(p.at("tokenizer.conv_layers.1.0.weight"), std::sqrt(2.0 / 576));
  expect_normal(p.at("classifier.positional_emb"), 0.2);
  for (const char* name : {"blocks.0.self_attn.qkv.weight", "blocks.3.self_attn.proj.weight", "blocks.1.linear1.weight",
                           "blocks.2.linear2.weight", "fc.weight"})
    expect_normal(p.at(std::string("classifier.") + name), 0.02);
  EXPECT_NEAR(spread(p.at("classifier.attention_pool.weight")).deviation, 0.02, 0.005);
  for (const char* name : {"classifier.blocks.0.linear1.bias", "classifier.attention_pool.bias", "classifier.fc.bias"})
    EXPECT_EQ(spread(p.at(name)).greatest, 0) << name;
  CctConfig cls = cct4();
  cls.pooling = "cls";
  EXPECT_EQ(spread(Cct(cls, 1).values().at("classifier.class_emb")).greatest, 0);
}

TEST(CctSetup, TFixupScalesTheLastConvolutionAndTheLayers) {
  CctConfig config = cct4();
  config.initialization = "tfixup";
  const NamedTensors p = Cct(config, 1).values();
  const double f = 0.67 * std::pow(4, -0.25), e = std::pow(36, -0.25);
  expect_uniform(p.at("tokenizer.conv_layers.0.0.weight"), std::sqrt(6.0 / (27 + 64)));
  expect_uniform(p.at("tokenizer.conv_layers.1.0.weight"), e * std::sqrt(6.0 / (576 + 128)));
  expect_normal(p.at("classifier.positional_emb"), e / std::sqrt(128.0));
  expect_uniform(p.at("classifier.blocks.2.linear1.weight"), f * std::sqrt(6.0 / 256));
}

TEST(CctSetup, PyTorchBeginsWithUniformConvolutions) {
  CctConfig config = hybrid();
  config.initialization = "pytorch", config.qkv_bias = true;
  const NamedTensors p = Cct(config, 1).values();
  expect_uniform(p.at("tokenizer.conv_layers.2.0.weight"), 1 / std::sqrt(576.0));
  EXPECT_GT(spread(p.at("tokenizer.conv_layers.2.0.bias")).greatest, 0.9 / std::sqrt(576.0));
}

TEST(CctSetup, RefusesWhatCannotBe) {
  const auto error = [](auto change) { return refusal<Cct>(tiny_cct(), change); };
  EXPECT_EQ(error([](auto&) {}), "no error");
  EXPECT_EQ(error([](auto& c) { c.convs = 0; }), "cct: convs must be in [1, 6], got 0");
  EXPECT_EQ(error([](auto& c) { c.convs = 7; }), "cct: convs must be in [1, 6], got 7");
  EXPECT_EQ(error([](auto& c) { c.kernel = 4; }), "cct: kernel must be 3, 5 or 7, got 4");
  EXPECT_EQ(error([](auto& c) { c.stem = "conv"; }), "cct: stem must be one of cct, hybrid, got \"conv\"");
  EXPECT_EQ(error([](auto& c) { c.block = "post"; }), "cct: block must be one of pre, cct, got \"post\"");
  EXPECT_EQ(error([](auto& c) { c.normalizer = "deepnorm"; }),
            "cct: normalizer must support pre-norm, got deepnorm, which works only with post-norm");
  EXPECT_EQ(error([](auto& c) { c.pre_norm = false; }),
            "cct: pre_norm must be on, since the key model.block determines where normalizers are applied");
  EXPECT_EQ(error([](auto& c) { c.initialization = "timm"; }),
            "cct: initialization must be one of cct, pytorch, tfixup, got \"timm\"");
  EXPECT_EQ(error([](auto& c) { c.image_size = 0; }), "cct: image_size must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.stem = "hybrid", c.convs = 4, c.image_size = 7; }),
            "cct: image_size must be at least 8 for 4 convolutions, got 7");
  EXPECT_EQ(error([](auto& c) { c.stem = "hybrid", c.convs = 3, c.width = 10; }),
            "cct: width must be a multiple of 4 for a hybrid stem with 3 convolutions, got 10");
  EXPECT_EQ(error([](auto& c) { c.normalizer_at["tokenizer.conv_layers.0.norm"] = "affine"; }),
            "cct: normalizer_at: there is no site \"tokenizer.conv_layers.0.norm\"; did you mean "
            "\"classifier.blocks.0.norm1\"?");
}

}  // namespace
}  // namespace foldgrad::testing
