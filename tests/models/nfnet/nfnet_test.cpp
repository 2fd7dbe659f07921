// Tests NFNet: sizes, names, error messages, a forward pass worked by hand, gradients, stochastic depth, and folding.
#include "models/nfnet/nfnet.h"

#include "models/fold/model.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {
namespace {

// Returns a configuration with maps of 4 x 4, 2 x 2 and 1 x 1 pixels.
NfNetConfig tiny_nfnet() {
  NfNetConfig config;
  config.image_size = 8, config.classes = 5;
  config.channels = {16, 16}, config.depths = {1, 2}, config.group_size = 4;
  config.dropout = config.drop_path = 0;
  return config;
}

// Returns a configuration with the choices of the PyTorch port. The map of the first stage has an odd side, 3 pixels;
// that of the second stage has a side of 2 pixels.
NfNetConfig tiny_port() {
  NfNetConfig config = tiny_nfnet();
  config.image_size = 23, config.padding = "port", config.standardization = "unbiased";
  config.activation = "gelu", config.gate_activation = "gained", config.initialization = "port";
  return config;
}

NfNetConfig f0_of(std::int64_t divisor, const std::vector<std::int64_t>& depths, std::int64_t classes = 10) {
  NfNetConfig config;
  config.image_size = 32, config.classes = classes, config.depths = depths;
  for (std::int64_t& c : config.channels) c /= divisor;
  config.group_size /= divisor;
  return config;
}

// The published F0 has 71,489,284 parameters. In the model with batch normalization, each output channel of a
// convolution has a gain and a bias of the normalizer instead of one gain. We count the multiplications by hand, layer
// by layer; the second summand is the average pooling before shortcuts. Without this pooling, F0 has the published
// 12.38e9 multiplications for images of 256 x 256 pixels.
TEST(NfNet, KnownModelsHaveTheirParametersMultiplicationsAndSites) {
  const auto channels_of = [](const NfNet& model) {
    std::int64_t channels = 0;
    for (const Normalizer* norm : model.normalizers()) channels += norm->channels();
    return channels;
  };
  const NfNet f0(f0_of(1, {1, 2, 6, 3}, 1000), std::nullopt);
  EXPECT_EQ(f0.parameter_count(), 71489284);
  EXPECT_EQ(f0.normalizers().size(), 57u);
  EXPECT_EQ(channels_of(f0), 44912);
  NfNetConfig small = f0_of(8, {1, 1, 2, 1}), port = small, quarter = f0_of(4, {1, 1, 2, 1}), bn = quarter;
  port.padding = "port", quarter.stem_stride = bn.stem_stride = 1;
  bn.normalizer = "bn", bn.standardization = "none";
  struct Known {
    NfNetConfig config;
    std::int64_t parameters, multiplications, channels;
  };
  for (const Known& known :
       {Known{small, 451641, 1774848 + 3840, 2574}, Known{port, 451641, 1277342 + 2944, 2574},
        Known{quarter, 1786419, 26844672 + 30720, 5148}, Known{bn, 1786419 + 5148, 26844672 + 30720, 5148}}) {
    NfNet model(known.config, std::nullopt);
    EXPECT_EQ(model.parameter_count(), known.parameters);
    EXPECT_EQ(multiplications(model), known.multiplications);
    EXPECT_EQ(model.normalizers().size(), 29u);
    EXPECT_EQ(channels_of(model), known.channels);
  }
}

TEST(NfNet, NamesAreTimms) {
  const NamedTensors all = NfNet(tiny_nfnet(), 1).values();
  for (const auto& [name, shape] : Parameters{{"stem.conv1.weight", {1, 3, 3, 3}},
                                              {"stem.conv4.gain", {8}},
                                              {"stages.0.0.downsample.conv.weight", {16, 8, 1, 1}},
                                              {"stages.1.0.conv1.weight", {8, 16, 1, 1}},
                                              {"stages.1.1.conv2.weight", {8, 4, 3, 3}},
                                              {"stages.1.1.conv2b.bias", {8}},
                                              {"stages.1.1.conv3.weight", {16, 8, 1, 1}},
                                              {"stages.1.1.attn_last.fc1.weight", {8, 16}},
                                              {"stages.1.1.skipinit_gain", {1}},
                                              {"final_conv.weight", {32, 16, 1, 1}},
                                              {"head.fc.weight", {5, 32}}})
    EXPECT_EQ(all.at(name).shape(), shape) << name;
  EXPECT_FALSE(all.count("stages.1.1.downsample.conv.weight"));
}

// Only the first channel is not 0, and there is no standardization. The values are at least 7, so large that gelu
// returns its argument. At stride 2, "same" pads an even map only at its end, so the kernels of the stem's first and
// last convolutions begin at the border of the map. After the stem, the map has one pixel.
TEST(NfNet, NF_1_NF_2_NF_3_NF_4_NF_5_WorkedByHand) {
  NfNetConfig config = tiny_nfnet();
  config.image_size = 4, config.classes = 1, config.channels = {16}, config.depths = {2};
  config.standardization = "none", config.gate_activation = "gained";
  NfNet model(config, std::nullopt, DType::f64);
  const NamedTensors values = model.values();
  const auto set = [&](const std::string& name, double value, std::int64_t index = 0) {
    values.at(name).data<double>()[index] = value;
  };
  set("stem.conv1.weight", 1, 0);
  set("stem.conv2.weight", 1, 4);
  set("stem.conv3.weight", 1, 4);
  set("stem.conv4.weight", 1, 0);
  set("stages.0.0.downsample.conv.weight", 1);
  set("stages.0.0.downsample.conv.bias", 3);
  for (const std::string name : {"stages.0.0.", "stages.0.1."}) {
    set(name + "conv1.weight", 1);
    set(name + "conv2.weight", 1, 4);
    set(name + "conv2b.weight", 1, 4);
    set(name + "conv3.weight", 1);
    set(name + "skipinit_gain", 2);
  }
  set("stages.0.1.attn_last.fc1.bias", 8);
  set("stages.0.1.attn_last.fc2.weight", 0.125);
  set("final_conv.weight", 1);
  set("head.fc.weight", 10);
  set("head.fc.bias", 1);
  const Tensor images = Tensor::zeros({1, 4, 4, 3}, DType::f64);
  images.data<double>()[0] = 7;
  const double k = 1.7015043497085571, x = 7 * std::pow(k, 3), u = k * x, second = k / std::sqrt(1.04);
  const double y = 0.2 * 2 * 2 * 0.5 * std::pow(k, 3) * u + (u + 3);
  const double z = 0.2 * 2 * 2 / (1 + std::exp(-k)) * std::pow(k, 3) * second * y + y;
  EXPECT_NEAR(inference_logits(model, {{"images", images}}, DType::f64).item(), 10 * k * z + 1, 1e-8);
}

TEST(NfNet, ImpossibleSizesNameTheKey) {
  const auto refused = [](auto change) { return refusal<NfNet>(tiny_nfnet(), change); };
  EXPECT_EQ(refused([](auto& c) { c.channels = {}; }),
            "nfnet: channels must have a positive number for each of at most 16 stages, got []");
  EXPECT_EQ(refused([](auto& c) { c.channels.assign(17, 16); }),
            "nfnet: channels must have a positive number for each of at most 16 stages, got [16, 16, 16, 16, 16, 16, "
            "16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16]");
  EXPECT_EQ(refused([](auto& c) { c.channels[0] = 24; }),
            "nfnet: channels must begin with a multiple of 16, since the stem begins with 1/16 of this number, got 24");
  EXPECT_EQ(refused([](auto& c) { c.channels[1] = 17; }),
            "nfnet: channels must be even, since blocks halve them, got 17");
  EXPECT_EQ(refused([](auto& c) { c.depths = {1}; }),
            "nfnet: depths must have a positive number for each of the 2 stages in channels, got [1]");
  for (std::int64_t size : {0, 3, 16})
    EXPECT_EQ(refused([size](auto& c) { c.channels[1] = 24, c.group_size = size; }),
              "nfnet: group_size must divide 4, the greatest common divisor of half the channels of each stage, got " +
                  std::to_string(size));
  EXPECT_EQ(refused([](auto& c) { c.stem_stride = 3; }), "nfnet: stem_stride must be 1 or 2, got 3");
  EXPECT_EQ(refused([](auto& c) { c.image_size = 12; }),
            "nfnet: image_size must be a multiple of stem_stride * 2^stages = 8 with padding = same, got 12");
  EXPECT_EQ(refused([](auto& c) { c.image_size = 14, c.padding = "port"; }),
            "nfnet: image_size must be at least 15 with padding = port, got 14");
  EXPECT_EQ(refused([](auto& c) { c.activation = "relu"; }),
            "nfnet: activation must be one of gelu_tanh, gelu, got \"relu\"");
  EXPECT_EQ(refused([](auto& c) { c.normalizer = "deepnorm"; }),
            "nfnet: normalizer must not require post-norm, got deepnorm");
}

TEST(NfNet, Gradients) {
  NfNetConfig bn = tiny_nfnet();
  bn.normalizer = "bn", bn.standardization = "none";
  for (NfNetConfig config : {tiny_nfnet(), tiny_port(), bn}) {
    SCOPED_TRACE(config.standardization);
    config.dropout = 0.2, config.drop_path = 0.6;
    NfNet model(config, 1, DType::f64);
    randomize(model, 10);
    check_gradients(model, images_of(config));
  }
}

TEST(NfNet, TrainsInEveryPrecision) {
  for (const NfNetConfig& config : {tiny_nfnet(), tiny_port()})
    check_one_step([&](DType dtype) { return std::make_unique<NfNet>(config, 1, dtype); }, images_of(config));
}

// Only the branch of the second block may be dropped. Kept branches are not divided by the probability of keeping them,
// so each image has either the logits of inference or those of a model without the branch. The tolerance allows for the
// rounding of this probability to a multiple of 2^-16.
TEST(NfNet, StochasticDepthDropsBranchesAndDividesNothing) {
  NfNetConfig config = tiny_nfnet();
  config.channels = {16}, config.depths = {2}, config.drop_path = 0.8;
  NfNet model(config, 1, DType::f64);
  randomize(model, 10);
  const NamedTensors inputs = images_of(config, 16);
  const auto logits = [&](bool training) {
    Tape tape(/*recording=*/false);
    const ForwardPass pass{.tape = tape, .dtype = DType::f64, .training = training, .seed = 5};
    return model.forward(inputs, pass).value().values<double>();
  };
  const std::vector<double> trained = logits(true), whole = logits(false);
  model.values().at("stages.0.1.skipinit_gain").data<double>()[0] = 0;
  const std::vector<double> without = logits(false);
  int kept = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto near = [&](const std::vector<double>& other) {
      return std::abs(trained[5 * i] - other[5 * i]) < 1e-4 * std::abs(whole[5 * i] - without[5 * i]);
    };
    EXPECT_NE(near(whole), near(without)) << i;
    kept += near(whole);
  }
  EXPECT_GT(kept, 4);
  EXPECT_LT(kept, 15);
}

// Checks the initial deviations of a convolution [64, 16, 3, 3] in four groups. Its fan-in is 144. The port uses the
// sum of fan-in and fan-out, 144 + 576.
TEST(NfNet, InitialWeightsHaveTheDeviationsOfTheirSources) {
  NfNetConfig config = tiny_nfnet();
  config.channels = {128}, config.depths = {1}, config.group_size = 16;
  const auto check = [&](double deviation, double bias) {
    NfNet model(config, 1);
    const auto root_mean_square = [&](const char* name) {
      double sum = 0;
      const std::vector<float> values = model.values().at(name).values<float>();
      for (float v : values) sum += double(v) * v;
      return std::sqrt(sum / double(values.size()));
    };
    // The first deviation is estimated from 9,216 numbers.
    EXPECT_NEAR(root_mean_square("stages.0.0.conv2.weight"), deviation, 0.05 * deviation);
    EXPECT_NEAR(root_mean_square("stages.0.0.conv2.bias"), bias, 0.25 * bias);  // from 64 numbers
    EXPECT_NEAR(root_mean_square("head.fc.weight"), 0.01, 0.001);               // from 1,280 numbers
  };
  check(1. / 12, 0);
  config.initialization = "port";
  check(std::sqrt(2. / 720), 1. / 12 / std::sqrt(3.));
}

using Outcome = SiteReport::Outcome;

// In f64, each sum has a rounding error of about 1e-16.
TEST(NfNet, FoldsToTheSameLogitsWithoutNormalizersAndStandardization) {
  for (const char* normalizer : {"none", "bn", "un", "affine", "ln"})
    for (NfNetConfig config : {tiny_nfnet(), tiny_port()}) {
      SCOPED_TRACE(normalizer);
      config.normalizer = normalizer;
      const auto model = random_model<NfNet>(config);
      const NamedTensors inputs = images_of(config);
      const FoldedModel folded = fold(*model);
      const Tensor want = inference_logits(*model, inputs, DType::f64);
      EXPECT_LE(difference(inference_logits(*folded.model, inputs, DType::f64), want).relative, 1e-12);
      EXPECT_EQ(dynamic_cast<NfNet&>(*folded.model).config().standardization, "none");
      for (const auto& [name, value] : folded.model->values()) EXPECT_FALSE(name.ends_with(".gain")) << name;
      if (config.normalizer == "none" || config.normalizer == "ln") continue;
      EXPECT_TRUE(dynamic_cast<NfNet&>(*folded.model).config().normalizer_at.empty());
      for (const SiteReport& report : folded.reports)
        EXPECT_EQ(report.into, std::vector<std::string>{report.site.substr(0, report.site.size() - 4) + "weight"});
    }
}

}  // namespace
}  // namespace foldgrad::testing
