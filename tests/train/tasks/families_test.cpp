// Tests config.json and inputs of models that classify images or predict text, and exports to ONNX that are rejected.
#include "train/tasks/families.h"

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/cct/config.h"
#include "models/gpt/config.h"
#include "models/swin/config.h"
#include "models/vit/config.h"
#include "tests/harness/file_test.h"
#include "tests/models/gpt/tiny_gpt.h"
#include "tests/models/images/kinds.h"
#include "tests/models/transformer/tiny_translation.h"
#include "train/config/config_json.h"
#include "train/tasks/classification/classification.h"

namespace foldgrad::testing {
namespace {

void change_images(TokenModelConfig& config) {
  config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
  config.pixels = {{0.5, 0.25, 0.125}, {0.75, 0.375, 0.1}};
  config.pooling = "mean", config.qkv_bias = true, config.drop_path = 0.4, config.weight_standardization = true;
  config.initialization = "tfixup", config.tfixup_scope = "all", config.positions = "sinusoidal";
}
void change_rest(VitConfig& config) {
  change_images(config);
  config.normalizer_at = {{"blocks.0.norm1", "affine"}, {"blocks.1.mlp.residual", "scale"}};
}
void change_rest(CctConfig& config) {
  change_images(config);
  config.block = "cct", config.convs = 3, config.kernel = 5;
  config.normalizer_at = {{"tokenizer.conv_layers.1.norm", "affine"}, {"classifier.blocks.1.mlp.residual", "scale"}};
}
void change_rest(SwinConfig& config) {
  config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
  config.pixels = {{0.5, 0.25, 0.125}, {0.75, 0.375, 0.1}};
  config.qkv_bias = false, config.reduction_bias = config.fc_norm = true, config.drop_path = 0.4;
  config.normalizer_at = {{"layers.0.downsample.norm", "affine"}, {"layers.0.blocks.1.mlp.residual", "scale"}};
}
void change_rest(GptConfig& config) {
  config.pre_norm = false, config.rotary_theta = 500, config.input_bias = config.output_bias = true;
  config.normalizer_at = {{"h.0.ln_1", "affine"}, {"h.1.mlp.residual", "scale"}};
}

template <class M>
using ConfigOf = std::remove_cvref_t<decltype(std::declval<const M&>().config())>;

// Returns a configuration in which no key has its default.
template <class M>
ConfigOf<M> unusual() {
  ConfigOf<M> config = Kinds<M>::few("un").back();
  config.activation = "relu";
  config.dropout = 0.1, config.attention_dropout = 0.2, config.activation_dropout = 0.3;
  config.normalizer_options = {{"window", "3"}};
  change_rest(config);
  return config;
}

template <class M>
class FamilyJson : public ::testing::Test {};
using Families = ::testing::Types<Vit, Cct, Swin, Gpt>;
TYPED_TEST_SUITE(FamilyJson, Families);

TYPED_TEST(FamilyJson, WhatIsWrittenReadsBackTheSame) {
  using Config = ConfigOf<TypeParam>;
  const Config written = unusual<TypeParam>();
  Config again = parse_config_json<Config>(nlohmann::json::parse(config_json(written).dump()));
  EXPECT_EQ(again.normalizer_options.at("window"), "3");
  again.normalizer_options = written.normalizer_options;  // the file also has the options with default values
  EXPECT_EQ(again, written);
}

int parameters_to_expect(const TokenModelConfig&) { return 5; }
int parameters_to_expect(const SwinConfig& config) { return int(2 + 2 * config.stages()); }
int parameters_to_expect(const GptConfig& config) { return config.has_learned_positions() ? 4 : 3; }

// Sizes that do not match a file must be rejected before the model takes memory. A Cct with only one convolution
// applies it to the image, so it has 3 input channels.
TYPED_TEST(FamilyJson, ExpectsTheParametersThatEachSizeBelongsTo) {
  for (const auto& config : {unusual<TypeParam>(), Kinds<TypeParam>::few("ln").front()}) {
    const TypeParam model(config, std::nullopt);
    const NamedTensors values = model.values();
    int matched = 0;
    for (const auto& [name, shape] : expected_parameters(config)) {
      ASSERT_TRUE(values.count(name)) << name;
      EXPECT_EQ(values.at(name).shape(), shape) << name;
      ++matched;
    }
    EXPECT_EQ(matched, parameters_to_expect(config));
  }
}

TEST(VitJson, SizesBeyondAllCountingAreRefused) {
  nlohmann::json huge = config_json(unusual<Vit>());
  huge["model"]["image_size"] = 2147483647, huge["model"]["patch"] = 1;
  huge["model"]["width"] = 1 << 30, huge["model"]["heads"] = 1 << 23;
  const std::string message = message_of([&] { expected_parameters(parse_config_json<VitConfig>(huge)); });
  EXPECT_TRUE(contains(message, "elements"));
}

template <class M>
std::string error_with(const char* pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(config_json(unusual<M>()).dump());
  json[nlohmann::json::json_pointer(pointer)] = value;
  return message_of([&] { parse_config_json<ConfigOf<M>>(json); });
}

template <class M>
std::string error_without(const char* key) {
  nlohmann::json json = nlohmann::json::parse(config_json(unusual<M>()).dump());
  json["model"].erase(key);
  return message_of([&] { parse_config_json<ConfigOf<M>>(json); });
}

TEST(VitJson, RefusesWhatIsMissingUnknownOrOfAnotherType) {
  const auto error = error_with<Vit>;
  EXPECT_EQ(error("/model/image_mean", {0.5, 0.5}), "model.image_mean must be three numbers, got an array");
  EXPECT_EQ(error("/model/class_names", {"cat", 2}), "model.class_names must be an array of text, got an array");
  EXPECT_EQ(error("/model/patch", 3), "vit: patch must divide image_size = 4, got 3");
  EXPECT_EQ(error("/model/patsh", 2), "there is no key model.patsh; did you mean model.patch?");
  EXPECT_EQ(error_without<Vit>("pooling"), "model.pooling is missing");
}

TEST(CctJson, RefusesWhatIsUnknownOrOutOfRange) {
  const auto error = error_with<Cct>;
  EXPECT_EQ(error("/model/convs", -1), "model.convs must be an integer in [0, 6], got -1");
  EXPECT_EQ(error("/model/convs", 7), "model.convs must be an integer in [0, 6], got 7");
  EXPECT_EQ(error("/model/patch", 2), "there is no key model.patch");
  EXPECT_EQ(error("/model/pre_norm", true), "there is no key model.pre_norm");
}

TEST(SwinJson, RefusesWhatIsMissingOrUnknown) {
  EXPECT_EQ(error_with<Swin>("/model/vocabulary", 2), "there is no key model.vocabulary");
  EXPECT_EQ(error_without<Swin>("window"), "model.window is missing");
}

TEST(VitJson, TakesKeysOfEarlierVersions) {
  nlohmann::json json = nlohmann::json::parse(config_json(unusual<Vit>()).dump());
  json["norm"] = {{"name", "un"}, {"mask", true}, {"options", {{"mask", "all"}}}};
  EXPECT_TRUE(parse_config_json<VitConfig>(json).normalizer_options.empty());
}

TEST(GptJson, RefusesWhatIsMissingUnknownOrOutOfRange) {
  const auto error = error_with<Gpt>;
  EXPECT_EQ(error("/model/context", 1000001), "model.context must be an integer in [0, 1000000], got 1000001");
  EXPECT_EQ(error("/model/patch", 2), "there is no key model.patch");
  for (const char* key : {"vocabulary", "context", "positions", "tied"})
    EXPECT_EQ(error_without<Gpt>(key), fmt::format("model.{} is missing", key));
}

using ImageInputs = FileTest;

TEST_F(ImageInputs, AreBytesOrNormalizedImagesOfTheModelsSize) {
  const Vit model(tiny_vit(), 1);
  const auto error = [&](const NamedTensors& tensors) {
    write_safetensors(files_ / "in", tensors);
    return error_of<std::exception>([&] { kClassification.read_inputs(model, files_ / "in"); });
  };
  for (DType dtype : {DType::u8, DType::f32, DType::f64})
    EXPECT_EQ(error({{"images", Tensor::zeros({2, 4, 4, 3}, dtype)}}), "no error");
  EXPECT_EQ(error({}), "@in: must have a tensor images [images, 4, 4, 3]");
  EXPECT_EQ(error({{"image", Tensor::zeros({2, 4, 4, 3}, DType::u8)}}),
            "@in: must have no tensor other than images, got image");
  const std::string must = "@in: images must be u8, f32 or f64 [images, 4, 4, 3], got ";
  EXPECT_EQ(error({{"images", Tensor::zeros({2, 4, 4, 3}, DType::i64)}}), must + "i64 [2, 4, 4, 3] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({2, 3, 4, 4}, DType::u8)}}), must + "u8 [2, 3, 4, 4] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({}, DType::u8)}}), must + "u8 [] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({0, 4, 4, 3}, DType::u8)}}), must + "u8 [0, 4, 4, 3] on cpu");
  EXPECT_TRUE(begins(error({{"images", Tensor::full({1, 4, 4, 3}, std::nan(""), DType::f32)}}),
                     "@in: images must be finite, got"));
}

using OnnxRefusals = FileTest;

TEST_F(OnnxRefusals, OfAVitWithoutNodes) {
  Vit instance(tiny_vit("instancenorm"), 1), exact(tiny_vit(), 1, DType::f64);
  EXPECT_EQ(message_of([&] { instance.write_onnx(files_ / "out"); }),
            "onnx: blocks.0.norm1 (instancenorm) has statistics over the tokens of an image; ONNX has no nodes for "
            "such statistics");
  EXPECT_EQ(message_of([&] { exact.write_onnx(files_ / "out"); }),
            "onnx: the model must be f32 on cpu, got f64 on cpu");
  EXPECT_FALSE(exists("out"));
}

TEST_F(OnnxRefusals, OfATransformerWhosePaddingIsTheEnd) {
  TransformerConfig config = tiny_config("un");
  config.pad = kEos;
  Transformer model(config, 1);
  EXPECT_EQ(message_of([&] { model.write_onnx(files_ / "out"); }),
            "onnx: pad must not be 2, the end of a sentence: a translation begins with this id, and the exported "
            "decoder would treat it as padding");
  EXPECT_FALSE(exists("out"));
}

TEST_F(OnnxRefusals, OfAGptWithoutNodesAndOfDirectoriesOfModels) {
  Gpt instance(tiny_gpt("instancenorm"), 1), model(tiny_gpt(), 1);
  EXPECT_EQ(message_of([&] { instance.write_onnx(files_ / "out"); }),
            "onnx: h.0.ln_1 (instancenorm) has statistics over the tokens of a sequence, but a token-by-token decoder "
            "has only the earlier tokens");
  write("model.safetensors", "");
  EXPECT_EQ(
      message_of([&] { model.write_onnx(files_.path()); }),
      "onnx: " + files_.path() + " contains a model, whose config.json would be overwritten; choose another directory");
  EXPECT_FALSE(exists("out"));
}

}  // namespace
}  // namespace foldgrad::testing
