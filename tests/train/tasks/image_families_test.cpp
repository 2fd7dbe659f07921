// Tests keys and config.json of ConvNeXt, EfficientNet-Lite, NFNet, T2T and Swin.
#include <fmt/format.h>

#include "models/convnext/convnext.h"
#include "models/efficientnet_lite/efficientnet_lite.h"
#include "models/nfnet/nfnet.h"
#include "models/swin/config.h"
#include "models/t2t/t2t.h"
#include "tests/harness/compare.h"
#include "tests/harness/file_test.h"
#include "train/config/config.h"
#include "train/config/config_json.h"

namespace foldgrad::testing {
namespace {

// Checks that `written`, which must have the option window = 3, reads back the same from config.json, and that the
// model has the expected parameters.
template <class M>
void expect_kept(const typename M::Config& written) {
  auto again = parse_config_json<typename M::Config>(nlohmann::json::parse(config_json(written).dump()));
  EXPECT_EQ(again.normalizer_options.at("window"), "3");
  again.normalizer_options = written.normalizer_options;  // the file also has the options with default values
  EXPECT_EQ(again, written);
  const M model(written, std::nullopt);
  const NamedTensors values = model.values();
  for (const auto& [name, shape] : expected_parameters(written)) {
    ASSERT_TRUE(values.count(name)) << name;
    EXPECT_EQ(values.at(name).shape(), shape) << name;
  }
}

template <class Config>
std::string message_with(const Config& config, const char* key, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(config_json(config).dump());
  json["model"][key] = value;
  return message_of([&] { parse_config_json<Config>(json); });
}

void set_data(ImageModelConfig& config) {
  config.classes = 2, config.class_names = {"cat", "dog"};
  config.pixels = {{0.5, 0.25, 0.125}, {0.75, 0.375, 0.1}};
  config.normalizer = "un", config.normalizer_options = {{"window", "3"}};
}

TEST(ConvNextJson, IsKeptAndRefusesSizesThatAreNone) {
  ConvNextConfig config;
  set_data(config);
  config.image_size = 24, config.patch = 3, config.channels = {4, 8}, config.depths = {1, 2}, config.drop_path = 0.5;
  config.normalizer_at = {{"stages.0.blocks.0.gamma", "none"}, {"head.norm", "affine"}};
  expect_kept<ConvNext>(config);
  const auto error = [&](const char* key, const nlohmann::json& value) { return message_with(config, key, value); };
  const std::string must = "model.channels must be an array of integers in [0, 2147483647], got ";
  EXPECT_EQ(error("channels", 4), must + "4");
  for (const char* values : {"[4, -1]", "[4, 2147483648]", "[4, 0.5]"})
    EXPECT_EQ(error("channels", nlohmann::json::parse(values)), must + "an array") << values;
  EXPECT_EQ(error("channels", nlohmann::json::parse("[4, 0]")),
            "convnext: channels must have a positive number for each stage, got [4, 0]");
  EXPECT_TRUE(contains(error("width", 8), "there is no key model.width"));
  ConvNextConfig deep = config;
  deep.channels.assign(70, 4);  // a shift by 70 bits is undefined
  EXPECT_EQ(message_of([&] { smallest(deep); }),
            "convnext: depths must have a positive number for each of the 70 stages in channels, got [1, 2]");
}

TEST(EfficientNetLiteJson, IsKept) {
  EfficientNetLiteConfig config;
  set_data(config);
  config.conv_bias = true;
  config.normalizer_at = {{"blocks.1.bn2", "affine"}};
  expect_kept<EfficientNetLite>(config);
}

TEST(NfNetJson, IsKept) {
  NfNetConfig config;
  set_data(config);
  config.image_size = 40, config.channels = {32, 16}, config.depths = {1, 2}, config.group_size = 4;
  config.stem_stride = 1, config.padding = "port", config.standardization = "unbiased", config.activation = "gelu";
  config.gate_activation = "gained", config.initialization = "port", config.dropout = 0.5, config.drop_path = 0.5;
  config.normalizer_at = {{"stages.1.0.conv2b.norm", "affine"}};
  expect_kept<NfNet>(config);
}

TEST(EfficientNetLiteKeys, HaveTheOptionsOfTheDefaultNormalizer) {
  using Options = std::map<std::string, std::string>;
  const std::string family = "model.family = 'efficientnet_lite'\n";
  const auto options = [&](const std::string& more) {
    return parse_config(family + more, "a.toml").blocks().normalizer_options;
  };
  EXPECT_EQ(options(""), (Options{{"alpha", "0.99"}, {"eps", "0.001"}}));
  EXPECT_EQ(options("norm.bn.alpha = 0.75\n"), (Options{{"alpha", "0.75"}, {"eps", "0.001"}}));
  EXPECT_EQ(options("norm.name = 'ln'\n"), Options());
  for (const std::string more : {"", "norm.name = 'ln'\n"}) {
    const ExperimentConfig c = parse_config(family + more, "a.toml");
    EXPECT_EQ(parse_config(config_text(c), "b.toml"), c);
  }
}

TEST(ConvNextKeys, SizesOfStagesAreAList) {
  const auto channels = [](const char* given) {
    const std::string text = fmt::format("[model]\nfamily = \"convnext\"\nchannels = {}", given);
    return message<ConfigError>([&] { parse_config(text, "a.toml"); });
  };
  const std::string must = "a.toml:3: model.channels must be a list of integers in [1, 2147483647], got ";
  EXPECT_EQ(channels("[4, 0]"), must + "0");
  EXPECT_EQ(channels("[4, 2147483648]"), must + "2147483648");
  EXPECT_EQ(channels("8"), must + "8");
}

TEST(T2tJson, IsKeptAndRefusesSizesThatAreNone) {
  T2tConfig config;
  set_data(config);
  config.kernels = {7, 5, 3}, config.strides = {2, 2, 1}, config.paddings = {3, 0, 1};
  config.token_width = 8, config.token_attention = "softmax", config.token_dropout = 0.2;
  config.width = 16, config.ffn_width = 24, config.heads = 2, config.layers = 3, config.pooling = "mean";
  config.qkv_bias = true, config.activation = "relu", config.drop_path = 0.5;
  config.dropout = 0.1, config.attention_dropout = 0.2, config.activation_dropout = 0.3;
  config.normalizer_at = {{"tokens_to_token.attention2.norm1", "affine"}, {"norm", "none"}};
  expect_kept<T2t>(config);
  T2tConfig performer = config;
  performer.token_attention = "performer";
  expect_kept<T2t>(performer);
  EXPECT_EQ(message_with(config, "kernels", nlohmann::json::parse("[7, 5]")),
            "t2t: kernels must have 3 integers in [1, 64], got [7, 5]");
  EXPECT_EQ(message_with(config, "token_width", 4098), "model.token_width must be an integer in [0, 4096], got 4098");
  EXPECT_TRUE(contains(message_with(config, "positions", "random"), "there is no key model.positions"));
}

// With four stages, the smallest image is 32 x 32 pixels and its first map is 8 x 8. A window of 7 does not divide 8,
// so it needs a larger image.
TEST(SwinKeys, TheSmallestImageIsOneThatWindowsFit) {
  for (const auto& [window, side] : {std::pair(4, 32), {6, 96}, {7, 224}, {100, 32}}) {
    SwinConfig config;
    config.window = window;
    EXPECT_EQ(smallest(config).image_size, side) << window;
  }
}

}  // namespace
}  // namespace foldgrad::testing
