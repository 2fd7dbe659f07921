// Tests the keys and config.json of every model family, inputs of image models, and rejected exports to ONNX.
#include "train/tasks/families.h"

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "models/convnext/convnext.h"
#include "models/efficientnet_lite/efficientnet_lite.h"
#include "models/nfnet/nfnet.h"
#include "tests/harness/file_test.h"
#include "tests/models/gpt/tiny_gpt.h"
#include "tests/models/images/kinds.h"
#include "tests/models/transformer/tiny_translation.h"
#include "train/config/config.h"
#include "train/config/config_json.h"
#include "train/tasks/classification/classification.h"

namespace foldgrad::testing {
namespace {

template <class M>
using ConfigOf = std::remove_cvref_t<decltype(std::declval<const M&>().config())>;

// Returns a small configuration. Classes have no names.
template <class M>
ConfigOf<M> small_config() {
  ConfigOf<M> config;
  if constexpr (requires { Kinds<M>::few("un"); }) config = Kinds<M>::few("un").front();
  if constexpr (requires { config.channels.size(); }) config.channels = {32, 16}, config.depths = {1, 2};
  if constexpr (requires { config.group_size; }) config.group_size = 4;
  if constexpr (requires { config.classes; }) config.classes = 2;
  if constexpr (requires { config.share_embeddings; }) config.share_embeddings = "none";
  config.normalizer = "un", config.normalizer_options = {{"window", "3"}};
  return config;
}

using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;
using Numbers = std::array<double, 3>;

// Each overload returns other values for the key, at least one of which is valid.
Integers others(std::int64_t n, const ConfigKey&) { return {2 * n, n + 2, n - 1}; }
std::vector<double> others(double number, const ConfigKey&) { return {number / 2 + 0.0625}; }
std::array<bool, 1> others(bool on, const ConfigKey&) { return {!on}; }
std::array<Numbers, 1> others(const Numbers&, const ConfigKey&) { return {Numbers{0.5, 0.25, 0.125}}; }
std::array<Texts, 1> others(const Texts&, const ConfigKey&) { return {Texts{"cat", "dog"}}; }
Texts others(const std::string& text, const ConfigKey& key) {
  Texts choices = key.choices;
  std::erase(choices, text);
  return choices;
}
std::vector<Integers> others(Integers list, const ConfigKey&) {
  Integers doubled = list;
  for (std::int64_t& n : doubled) n *= 2;
  ++list[0];
  return {doubled, list};
}

// Changes one key of small_config() at a time, and calls visit(config, key).
template <class M, class Visit>
void change_each_key(const Visit& visit) {
  const ConfigOf<M> base = small_config<M>();
  visit_keys(base, [&](const auto&, const ConfigKey& key) {
    const std::string name = key.full_name();
    if (name == "norm.name") return;  // other normalizers have other options
    ConfigOf<M> config = base;
    visit_keys(config, [&](auto& member, const ConfigKey& of) {
      if (of.full_name() != name) return;
      const auto before = member;
      for (const auto& value : others(before, of)) {
        member = value;
        if (message_of([&] { config.validate(); }) == "no error") return;
      }
      ADD_FAILURE() << name << " has no other valid value";
    });
    visit(config, name);
  });
}

template <class M>
class FamilyJson : public ::testing::Test {};
using Families = ::testing::Types<Vit, Cct, T2t, Swin, ConvNext, EfficientNetLite, NfNet, Gpt, Transformer>;
TYPED_TEST_SUITE(FamilyJson, Families);

TYPED_TEST(FamilyJson, EveryKeyIsKept) {
  using Config = ConfigOf<TypeParam>;
  change_each_key<TypeParam>([](Config written, const std::string& key) {
    written.normalizer_at = {{"blocks.0.norm1", "affine"}, {"blocks.1.mlp.residual", "scale"}};
    auto again = parse_config_json<Config>(nlohmann::json::parse(config_json(written).dump()));
    EXPECT_EQ(again.normalizer_options.at("window"), "3");
    again.normalizer_options = written.normalizer_options;  // the file also lists options with default values
    EXPECT_EQ(again, written) << key;
  });
}

std::int64_t parameters_to_expect(const TokenModelConfig&) { return 5; }
std::int64_t parameters_to_expect(const T2tConfig&) { return 7; }
std::int64_t parameters_to_expect(const SwinConfig& config) { return 2 + 2 * config.stages(); }
std::int64_t parameters_to_expect(const ConvNextConfig& config) { return 2 + config.stages(); }
std::int64_t parameters_to_expect(const EfficientNetLiteConfig&) { return 1; }
std::int64_t parameters_to_expect(const NfNetConfig& config) { return 2 + 2 * config.stages(); }
std::int64_t parameters_to_expect(const GptConfig& config) { return config.has_learned_positions() ? 4 : 3; }
std::int64_t parameters_to_expect(const TransformerConfig& config) { return config.one_input_table() ? 5 : 6; }

// Checks expected_parameters() against the model's own parameters. A reader uses it to reject sizes that do not match a
// file before it allocates the model.
TYPED_TEST(FamilyJson, ExpectsTheParametersThatEachSizeBelongsTo) {
  change_each_key<TypeParam>([](const auto& config, const std::string& key) {
    const TypeParam model(config, std::nullopt);
    const NamedTensors values = model.values();
    std::int64_t matched = 0;
    for (const auto& [name, shape] : expected_parameters(config)) {
      ASSERT_TRUE(values.count(name)) << name << " with another " << key;
      EXPECT_EQ(values.at(name).shape(), shape) << name << " with another " << key;
      ++matched;
    }
    EXPECT_EQ(matched, parameters_to_expect(config)) << key;
  });
}

TEST(VitJson, SizesBeyondAllCountingAreRefused) {
  nlohmann::json huge = config_json(small_config<Vit>());
  huge["model"]["image_size"] = 2147483647, huge["model"]["patch"] = 1;
  huge["model"]["width"] = 1 << 30, huge["model"]["heads"] = 1 << 23;
  const std::string message = message_of([&] { expected_parameters(parse_config_json<VitConfig>(huge)); });
  EXPECT_TRUE(contains(message, "elements"));
}

template <class M>
std::string error_with(const char* pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(config_json(small_config<M>()).dump());
  json[nlohmann::json::json_pointer(pointer)] = value;
  return message_of([&] { parse_config_json<ConfigOf<M>>(json); });
}

template <class M>
std::string error_without(const char* key) {
  nlohmann::json json = nlohmann::json::parse(config_json(small_config<M>()).dump());
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

TEST(ConvNextJson, RefusesSizesThatAreNone) {
  const auto error = [](const auto& value) { return error_with<ConvNext>("/model/channels", value); };
  const std::string must = "model.channels must be an array of integers in [0, 2147483647], got ";
  EXPECT_EQ(error(4), must + "4");
  for (const char* values : {"[4, -1]", "[4, 2147483648]", "[4, 0.5]"})
    EXPECT_EQ(error(nlohmann::json::parse(values)), must + "an array") << values;
  EXPECT_EQ(error(Integers{4, 0}), "convnext: channels must have a positive number for each stage, got [4, 0]");
  EXPECT_TRUE(contains(error_with<ConvNext>("/model/width", 8), "there is no key model.width"));
  ConvNextConfig deep = small_config<ConvNext>();
  deep.channels.assign(70, 4);  // must not shift by 70 bits, which is undefined
  EXPECT_EQ(message_of([&] { smallest(deep); }),
            "convnext: depths must have a positive number for each of the 70 stages in channels, got [1, 2]");
}

TEST(T2tJson, RefusesSizesThatAreNone) {
  const auto error = error_with<T2t>;
  EXPECT_EQ(error("/model/kernels", {7, 5}), "t2t: kernels must have 3 integers in [1, 64], got [7, 5]");
  EXPECT_EQ(error("/model/token_width", 4098), "model.token_width must be an integer in [0, 4096], got 4098");
  EXPECT_TRUE(contains(error("/model/positions", "random"), "there is no key model.positions"));
}

TEST(VitJson, TakesKeysOfEarlierVersions) {
  nlohmann::json json = nlohmann::json::parse(config_json(small_config<Vit>()).dump());
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

// With four stages, the smallest image is 32 x 32 pixels and its first map is 8 x 8. 7 does not divide 8, so a window
// of 7 needs a larger image.
TEST(SwinKeys, TheSmallestImageIsOneThatWindowsFit) {
  for (const auto& [window, side] : {std::pair(4, 32), {6, 96}, {7, 224}, {100, 32}}) {
    SwinConfig config;
    config.window = window;
    EXPECT_EQ(smallest(config).image_size, side) << window;
  }
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
