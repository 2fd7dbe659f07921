// config.json of models that tell images apart, and the files that `foldgrad run` reads and `export` writes of it.
#include "train/tasks/model_rows.h"

#include <cmath>
#include <filesystem>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/images/onnx_export.h"
#include "tests/engine/files/temporary_directory.h"
#include "tests/models/cct/tiny_cct.h"
#include "tests/models/vit/tiny_vit.h"
#include "train/tasks/classification_inputs.h"

namespace foldgrad::testing {
namespace {

// Nothing in it is as it is by default.
VitConfig unusual() {
  VitConfig config = tiny_vit("un", /*pre_norm=*/false);
  config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
  config.pixels = {{0.5, 0.25, 0.125}, {0.75, 0.375, 0.1}};
  config.pooling = "mean", config.qkv_bias = true, config.activation = "relu";
  config.dropout = 0.1, config.attention_dropout = 0.2, config.activation_dropout = 0.3, config.drop_path = 0.4;
  config.weight_standardization = true;
  config.initialization = "tfixup", config.tfixup_scope = "all", config.positions = "sinusoidal";
  config.normalizer_options = {{"window", "3"}};
  config.normalizer_at = {{"blocks.0.norm1", "affine"}, {"blocks.1.mlp.residual", "scale"}};
  return config;
}

TEST(VitJson, WhatIsWrittenReadsBackTheSame) {
  VitConfig again = parse_config_json<VitConfig>(nlohmann::json::parse(config_json(unusual()).dump()));
  EXPECT_EQ(again.normalizer_options.at("window"), "3");
  again.normalizer_options = unusual().normalizer_options;  // the file has those with defaults too
  EXPECT_EQ(again, unusual());
}

TEST(VitJson, RefusesWhatIsMissingUnknownOrOfAnotherType) {
  const auto error = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(config_json(unusual()).dump());
    json[nlohmann::json::json_pointer(pointer)] = value;
    return message_of([&] { parse_config_json<VitConfig>(json); });
  };
  EXPECT_EQ(error("/model/image_mean", {0.5, 0.5}), "model.image_mean must be three numbers, got an array");
  EXPECT_EQ(error("/model/image_std", {1, 0, 1}), "vit: image_std must be above 0 and finite, got 0");
  EXPECT_EQ(error("/model/class_names", {"cat", 2}), "model.class_names must be an array of text, got an array");
  EXPECT_EQ(error("/model/class_names", {"cat"}), "vit: class_names must have 5 names or none, got 1");
  EXPECT_EQ(error("/model/patch", 3), "vit: patch must divide image_size = 4, got 3");
  EXPECT_EQ(error("/model/layers", -1), "model.layers must be an integer in [0, 2147483647], got -1");
  EXPECT_EQ(error("/model/patsh", 2), "there is no key model.patsh; did you mean model.patch?");
  EXPECT_EQ(error("/norm/mask", true), "there is no key norm.mask");
  nlohmann::json json = config_json(unusual());
  json["model"].erase("pooling");
  EXPECT_EQ(message_of([&] { parse_config_json<VitConfig>(json); }), "model.pooling is missing");
}

// Sizes that no file bears out must not take memory.
TEST(VitJson, ExpectsTheParametersThatEachSizeBelongsTo) {
  VitConfig config = unusual();
  const Vit model(config, std::nullopt);
  const NamedTensors values = model.values();
  std::int64_t matched = 0;
  for (const auto& [name, shape] : expected_parameters(parse_config_json<VitConfig>(config_json(config)))) {
    ASSERT_TRUE(values.count(name)) << name;
    EXPECT_EQ(values.at(name).shape(), shape) << name;
    ++matched;
  }
  EXPECT_EQ(matched, 5);
  nlohmann::json huge = config_json(config);
  huge["model"]["image_size"] = 2147483647, huge["model"]["patch"] = 1;
  huge["model"]["width"] = 1 << 30, huge["model"]["heads"] = 1 << 23;
  const std::string message = message_of([&] { expected_parameters(parse_config_json<VitConfig>(huge)); });
  EXPECT_NE(message.find("elements"), std::string::npos) << message;  // more than can be counted
}

// Nothing in it is as it is by default.
CctConfig unusual_cct() {
  CctConfig config = tiny_cct("un", "hybrid", "cct");
  config.class_names = {"cat", "dog", "eel", "fly", "gnu"};
  config.pixels = {{0.5, 0.25, 0.125}, {0.75, 0.375, 0.1}};
  config.pooling = "mean", config.qkv_bias = true, config.activation = "relu";
  config.convs = 3, config.kernel = 5;
  config.dropout = 0.1, config.attention_dropout = 0.2, config.activation_dropout = 0.3, config.drop_path = 0.4;
  config.weight_standardization = true;
  config.initialization = "tfixup", config.tfixup_scope = "all", config.positions = "sinusoidal";
  config.normalizer_options = {{"window", "3"}};
  config.normalizer_at = {{"tokenizer.conv_layers.1.norm", "affine"}, {"classifier.blocks.1.mlp.residual", "scale"}};
  return config;
}

TEST(CctJson, WhatIsWrittenReadsBackTheSame) {
  CctConfig again = parse_config_json<CctConfig>(nlohmann::json::parse(config_json(unusual_cct()).dump()));
  again.normalizer_options = unusual_cct().normalizer_options;  // the file has those with defaults too
  EXPECT_EQ(again, unusual_cct());
}

TEST(CctJson, RefusesWhatIsMissingUnknownOrOutOfRange) {
  const auto error = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(config_json(unusual_cct()).dump());
    json[nlohmann::json::json_pointer(pointer)] = value;
    return message_of([&] { parse_config_json<CctConfig>(json); });
  };
  EXPECT_EQ(error("/model/kernel", 4), "cct: kernel must be 3, 5 or 7, got 4");
  EXPECT_EQ(error("/model/convs", -1), "model.convs must be an integer in [0, 2147483647], got -1");
  EXPECT_EQ(error("/model/convs", 2147483647), "cct: convs must be in [1, 6], got 2147483647");
  EXPECT_EQ(error("/model/patch", 2), "there is no key model.patch");
  EXPECT_EQ(error("/model/pre_norm", true), "there is no key model.pre_norm");
}

// Also for models of one convolution, whose channels are those of an image.
TEST(CctJson, ExpectsTheParametersThatEachSizeBelongsTo) {
  for (const CctConfig& config : {unusual_cct(), tiny_cct("ln")}) {
    const NamedTensors values = Cct(config, std::nullopt).values();
    std::int64_t matched = 0;
    for (const auto& [name, shape] : expected_parameters(config)) {
      ASSERT_TRUE(values.count(name)) << name;
      EXPECT_EQ(values.at(name).shape(), shape) << name;
      ++matched;
    }
    EXPECT_EQ(matched, 5);
  }
}

TEST(ImageInputs, AreBytesOrNormalizedImagesOfTheModelsSize) {
  const TemporaryDirectory files;
  const Vit model(tiny_vit(), 1);
  const std::string path = files / "in";
  const auto error = [&](const NamedTensors& tensors) {
    write_safetensors(path, tensors);
    const std::string message = message_of([&] { read_image_inputs(model, path); });
    return message == "no error" ? message : message.substr(path.size() + 2);
  };
  for (DType dtype : {DType::u8, DType::f32, DType::f64})
    EXPECT_EQ(error({{"images", Tensor::zeros({2, 4, 4, 3}, dtype)}}), "no error");
  EXPECT_EQ(error({}), "must have a tensor images [images, 4, 4, 3]");
  EXPECT_EQ(error({{"image", Tensor::zeros({2, 4, 4, 3}, DType::u8)}}), "must hold images alone, got image");
  const std::string must = "images must be u8, f32 or f64 [images, 4, 4, 3], got ";
  EXPECT_EQ(error({{"images", Tensor::zeros({2, 4, 4, 3}, DType::i64)}}), must + "i64 [2, 4, 4, 3] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({2, 3, 4, 4}, DType::u8)}}), must + "u8 [2, 3, 4, 4] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({}, DType::u8)}}), must + "u8 [] on cpu");
  EXPECT_EQ(error({{"images", Tensor::zeros({0, 4, 4, 3}, DType::u8)}}), must + "u8 [0, 4, 4, 3] on cpu");
  EXPECT_EQ(error({{"images", Tensor::full({1, 4, 4, 3}, std::nan(""), DType::f32)}}).substr(0, 26),
            "images must be finite, got");
}

TEST(VitOnnx, RefusesWhatItHasNoNodesFor) {
  const TemporaryDirectory files;
  Vit instance(tiny_vit("instancenorm"), 1), exact(tiny_vit(), 1, DType::f64);
  EXPECT_EQ(message_of([&] { write_onnx(instance, files / "out"); }),
            "onnx: blocks.0.norm1 (instancenorm) has statistics over the tokens of an image, for which there are no "
            "nodes");
  EXPECT_EQ(message_of([&] { write_onnx(exact, files / "out"); }),
            "onnx: the model must be f32 on cpu, got f64 on cpu");
  EXPECT_FALSE(std::filesystem::exists(files / "out"));
}

}  // namespace
}  // namespace foldgrad::testing
